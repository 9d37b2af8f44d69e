//! The data that tests share and that the repository does not hold.

use std::path::PathBuf;

/// A file or folder of the shared data: `shared_data("models/stories260K")`.
///
/// The folder is `$WISP_SHARED/data`, or else `shared/data` beside the workspace. `None`, after a
/// line that says so, where it is absent.
pub fn shared_data(path: &str) -> Option<PathBuf> {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared"));
    let shared = std::env::var_os("WISP_SHARED").map_or_else(beside, PathBuf::from);
    let path = shared.join("data").join(path);
    if !path.exists() {
        eprintln!("skipped: {} is absent", path.display());
        return None;
    }
    Some(path)
}

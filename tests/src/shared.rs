//! Test data that is not in the repository.

use std::path::PathBuf;

/// Returns the path of a file or folder of the shared data, such as `shared_data("models/stories260K")`.
///
/// The shared data is in `$WISP_SHARED/data`, or in `shared/data` beside the workspace. Prints a note and
/// returns `None` if the path does not exist.
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

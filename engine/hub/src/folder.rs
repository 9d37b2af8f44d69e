//! Lists the files of a folder as a repository's.

use std::path::Path;

use crate::{error::RepoError, info::RepoFile};

/// How many levels of subfolders of a user's folder are listed. The folder may be a whole home.
pub(crate) const FOLDER_DEPTH: usize = 1;
/// How many levels of subfolders of a snapshot in the cache are listed.
#[cfg(feature = "hub")]
pub(crate) const CACHE_DEPTH: usize = 32;

/// Returns the files of a folder and of `depth` levels of subfolders, sorted by path, without hidden
/// ones.
pub(crate) fn list(folder: &Path, depth: usize) -> Result<Vec<RepoFile>, RepoError> {
    let mut files = Vec::new();
    walk(folder, "", depth, &mut files).map_err(|error| RepoError::io(folder, error))?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn walk(
    folder: &Path,
    prefix: &str,
    depth: usize,
    files: &mut Vec<RepoFile>,
) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        // The target of a link may be missing.
        let Ok(metadata) = std::fs::metadata(entry.path()) else {
            continue;
        };
        if name.starts_with('.') {
            continue;
        }
        let path = format!("{prefix}{name}");
        // A pipe or device is refused when it is opened, which says why.
        if !metadata.is_dir() {
            files.push(RepoFile {
                path,
                size: metadata.len(),
                id: String::new(),
                is_large: false,
            });
        } else if depth > 0 {
            // A subfolder that cannot be read is left out.
            let _ = walk(&entry.path(), &format!("{path}/"), depth - 1, files);
        }
    }
    Ok(())
}

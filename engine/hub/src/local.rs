//! The files of a folder, listed as a repository's.

use std::path::Path;

use super::{RepoError, RepoFile};

/// How deep a user's folder is looked into: it may be anything, as a home.
pub(super) const FOLDER_DEPTH: usize = 1;
/// How deep a repository's folders may lie in one another in the cache.
#[cfg(feature = "hub")]
pub(super) const CACHE_DEPTH: usize = 32;

/// All files of a folder and the folders in it, so many deep, hidden ones excepted, by path.
pub(super) fn list(folder: &Path, depth: usize) -> Result<Vec<RepoFile>, RepoError> {
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
        // A link may lead nowhere.
        let Ok(metadata) = std::fs::metadata(entry.path()) else {
            continue;
        };
        if name.starts_with('.') {
            continue;
        }
        let path = format!("{prefix}{name}");
        if metadata.is_file() {
            files.push(RepoFile {
                path,
                size: metadata.len(),
                id: String::new(),
                large: false,
            });
        } else if metadata.is_dir() && depth > 0 {
            // A folder that may not be read has nothing for us.
            let _ = walk(&entry.path(), &format!("{path}/"), depth - 1, files);
        }
    }
    Ok(())
}

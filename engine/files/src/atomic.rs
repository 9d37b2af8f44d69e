//! Writing a file so that nobody ever reads half of it.

use std::{fs, io, path::Path};

use crate::temporary::temporary_file;

/// Writes a file such that `path` always holds either the whole new contents or the previous ones.
///
/// # Errors
///
/// If the file cannot be written; `path` then still holds its previous contents.
pub fn write_atomic(path: &Path, contents: &[u8]) -> io::Result<()> {
    write_atomic_with(path, |temporary| fs::write(temporary, contents))
}

/// Writes a file as [`write_atomic`] does, with contents that `write` produces.
///
/// `write` receives the path of an empty temporary file in the same folder, which is moved to `path`
/// afterwards. If `path` is neither a file nor a folder, such as `/dev/null` or a pipe, `write` receives
/// `path` itself.
///
/// # Errors
///
/// The error of `write`, or that of creating or moving the temporary file. `path` then still holds its
/// previous contents, and the temporary file is gone.
pub fn write_atomic_with<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return write(path);
    }
    replace(path, 0o666, write)
}

/// Writes a temporary file beside `path` and moves it there. On Unix it gets these permissions, less the
/// process's umask.
pub(crate) fn replace<E: From<io::Error>>(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    let file = temporary_file(path, mode)?;
    write(file.path())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_write_leaves_the_previous_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let failed = write_atomic_with(&path, |temporary| {
            fs::write(temporary, "half")?;
            Err(io::Error::other("full"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "full");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        write_atomic(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

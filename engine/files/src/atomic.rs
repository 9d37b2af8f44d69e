//! Writing a file so that nobody ever reads half of it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::temporary::temporary_file;

/// The longest chain of symbolic links that is followed, as in Linux.
const MAX_LINKS: usize = 40;

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
/// afterwards. A link stays, and the file that it leads to is replaced, with its permissions. If `path` is
/// neither a file nor a folder, such as `/dev/null` or a pipe, or stands for an open file, such as
/// `/dev/stdout`, `write` receives `path` itself.
///
/// # Errors
///
/// The error of `write`, or that of creating or moving the temporary file. `path` then still holds its
/// previous contents, and the temporary file is gone.
pub fn write_atomic_with<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    let existing = fs::metadata(path);
    let is_special = |found: &fs::Metadata| !found.is_file() && !found.is_dir();
    if existing.as_ref().is_ok_and(is_special) || is_open_file(path) {
        return write(path);
    }
    replace(&resolve(path)?, 0o666, |temporary| {
        write(temporary)?;
        if let Ok(existing) = existing {
            fs::set_permissions(temporary, existing.permissions())?;
        }
        Ok(())
    })
}

/// Returns whether a path stands for a file that this process has open.
fn is_open_file(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"]
        .iter()
        .any(|open| path.starts_with(open))
}

/// Returns the path to which a path leads through links, whether it exists or not.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(target) => {
                path.pop();
                path.push(target);
            }
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Writes a file as [`write_atomic`] does, and replaces whatever has its name, except for a folder. For files that are
/// the program's own.
///
/// # Errors
///
/// As [`write_atomic`].
pub fn replace_atomic(path: &Path, contents: &[u8]) -> io::Result<()> {
    replace(path, 0o666, |temporary| fs::write(temporary, contents))
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

    #[cfg(unix)]
    #[test]
    fn link_stays_and_its_target_is_replaced_with_its_permissions() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("deep")).unwrap();
        fs::write(path("deep/file"), "old").unwrap();
        fs::set_permissions(path("deep/file"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("deep/file", path("link")).unwrap();
        symlink("deep/new", path("dangling")).unwrap();
        symlink("circle", path("circle")).unwrap();
        write_atomic(&path("link"), b"new").unwrap();
        write_atomic(&path("dangling"), b"first").unwrap();
        assert!(fs::symlink_metadata(path("link")).unwrap().is_symlink());
        assert_eq!(fs::read(path("deep/file")).unwrap(), b"new");
        let mode = fs::metadata(path("deep/file"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(fs::read(path("deep/new")).unwrap(), b"first");
        assert!(write_atomic(&path("circle"), b"").is_err());
    }
}

//! Temporary files and folders, and the removal of those that a killed process left behind.
//!
//! A process keeps the lock of each of its temporary files, and the system frees it when the process ends, however it
//! ends. So a temporary file whose lock can be taken is abandoned.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use tempfile::{Builder, NamedTempFile, TempDir};

use crate::registry::register;

/// The prefix of the names of temporary files, which are moved to their final name when they are complete.
pub const TEMPORARY_PREFIX: &str = ".wisp-part-";

/// The age in seconds beyond which something that cannot be locked counts as abandoned.
const ABANDONED_SECONDS: u64 = 3600;

/// How often another process may take a new temporary file for an abandoned one, between its creation and its lock.
const MAX_ATTEMPTS: usize = 8;

/// A folder that is deleted when it is dropped, unless it is kept.
#[derive(Debug)]
pub struct TemporaryFolder {
    folder: TempDir,
    /// Tells other processes that the folder is in use.
    _lock: Option<File>,
}

impl TemporaryFolder {
    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves the folder where it is, or where it was moved.
    pub fn keep(self) {
        let _ = self.folder.keep();
    }
}

/// Creates an empty temporary file in the folder of `path`, to be moved to `path`, and deletes abandoned ones there. On
/// Unix it gets these permissions, less the process's umask.
///
/// # Errors
///
/// If the file cannot be created.
pub fn temporary_file(path: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let folder = folder_of(path);
    remove_abandoned(folder);
    let mut last = io::Error::other("other processes keep deleting it");
    for _ in 0..MAX_ATTEMPTS {
        let file = register(|| builder(mode).tempfile_in(folder))?;
        match claim(file.as_file()) {
            Ok(()) => return Ok(file),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Creates an empty temporary folder beside `path`, to be moved to `path`, and deletes abandoned ones there.
///
/// # Errors
///
/// If the folder cannot be created.
pub fn temporary_folder(path: &Path) -> io::Result<TemporaryFolder> {
    let parent = folder_of(path);
    remove_abandoned(parent);
    let mut last = io::Error::other("other processes keep deleting it");
    for _ in 0..MAX_ATTEMPTS {
        let folder = register(|| builder(0o777).tempdir_in(parent))?;
        // Not every system opens folders.
        let lock = File::open(folder.path()).ok();
        match lock.as_ref().map_or(Ok(()), claim) {
            Ok(()) => {
                return Ok(TemporaryFolder {
                    folder,
                    _lock: lock,
                });
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Deletes the temporary files and folders in a folder whose processes have ended. Nothing that goes wrong is an error.
pub fn remove_abandoned(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let is_ours = |name: &str| name.starts_with(TEMPORARY_PREFIX);
        if !entry.file_name().to_str().is_some_and(is_ours) {
            continue;
        }
        let (path, Ok(file_type)) = (entry.path(), entry.file_type()) else {
            continue;
        };
        let Some(_lock) = abandoned(&path, file_type) else {
            continue;
        };
        let _ = match file_type.is_dir() {
            true => fs::remove_dir_all(path),
            false => fs::remove_file(path),
        };
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn builder(mode: u32) -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(TEMPORARY_PREFIX);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    builder
}

/// Locks a new temporary file or folder, so that no other process deletes it.
///
/// # Errors
///
/// If another process has just taken it for an abandoned one.
#[cfg(unix)]
fn claim(file: &File) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    match file.try_lock() {
        Ok(()) if file.metadata()?.nlink() == 0 => Err(io::ErrorKind::NotFound.into()),
        Err(fs::TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
        // Where files cannot be locked, none is deleted either.
        _ => Ok(()),
    }
}

/// Elsewhere a locked file cannot be written through another handle, so that files count as abandoned by their age.
#[cfg(not(unix))]
fn claim(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Returns a guard if a temporary file is abandoned: its lock, which no other process can take as long.
fn abandoned(path: &Path, file_type: fs::FileType) -> Option<Option<File>> {
    if cfg!(unix) && (file_type.is_file() || file_type.is_dir()) {
        let file = File::open(path).ok()?;
        file.try_lock().ok()?;
        return Some(Some(file));
    }
    let modified = fs::symlink_metadata(path).ok()?.modified().ok()?;
    let age = modified.elapsed().unwrap_or_default().as_secs();
    (age > ABANDONED_SECONDS).then_some(None)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_abandoned_files_and_folders_are_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        let (file, held) = (
            temporary_file(&path, 0o600).unwrap(),
            temporary_folder(&path).unwrap(),
        );
        fs::write(held.path().join("weights"), "1").unwrap();
        let left = folder.path().join(".wisp-part-left");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("weights"), "1").unwrap();
        fs::write(folder.path().join(".wisp-part-1"), "1").unwrap();
        fs::write(folder.path().join("other"), "1").unwrap();
        remove_abandoned(folder.path());
        let mut found: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        found.sort();
        let mut expected = vec![
            file.path().to_path_buf(),
            held.path().to_path_buf(),
            folder.path().join("other"),
        ];
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn concurrent_processes_keep_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let file = temporary_file(&path, 0o600).unwrap();
                        assert!(file.path().exists());
                        file.persist(&path).unwrap();
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

//! Files in the cache: contents under `blobs`, named by their hashes, and links to them under
//! `snapshots/COMMIT`, named like the files of the repository.

use std::{
    fs::{self, File, TryLockError},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use super::{
    hash::{is_sha256, pointer_hash},
    http::TICK,
    repo::OnlineRepo,
};
use crate::{error::RepoError, info::RepoFile};
use wisp_files::{FileKind, TEMPORARY_PREFIX, read_small_text, remove_abandoned, replace_atomic};

impl OnlineRepo {
    /// Records which commit the revision names, for offline mode.
    pub(super) fn write_ref(&self, commit: &str) -> std::io::Result<()> {
        let head = self.folder().join("refs").join(&self.revision);
        if commit == self.revision
            || read_small_text(&head, FileKind::Line).is_ok_and(|old| old == commit)
        {
            return Ok(());
        }
        if let Some(parent) = head.parent() {
            fs::create_dir_all(parent)?;
        }
        replace_atomic(&head, commit.as_bytes())
    }

    /// Locks a content against other processes that would download it too; `None` on a file system without locks.
    pub(super) fn lock(
        &self,
        file: &RepoFile,
        go_on: &dyn Fn() -> ControlFlow<()>,
    ) -> Result<Option<File>, RepoError> {
        let folder = self.folder();
        let locks = self.settings.cache.path().join(".locks");
        let path = locks.join(folder.file_name().unwrap_or_default());
        fs::create_dir_all(&path).map_err(|error| RepoError::io(&path, error))?;
        // The lock file is never deleted, so that all processes lock the same one.
        let path = path.join(format!("{}.lock", file.id));
        let lock = File::create(&path).map_err(|error| RepoError::io(&path, error))?;
        let mut is_waiting = false;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Some(lock)),
                // Some file systems have no locks. There every process has a partial file of its own.
                Err(TryLockError::Error(_)) => return Ok(None),
                Err(TryLockError::WouldBlock) => {}
            }
            if !is_waiting {
                tracing::warn!("waiting for another process that downloads {}", file.path);
                is_waiting = true;
            }
            if go_on().is_break() {
                return Err(RepoError::Interrupted);
            }
            std::thread::sleep(TICK);
        }
    }
}

/// The longest id of a content in bytes: a SHA-256 in hexadecimal.
const MAX_ID: usize = 64;

/// Returns whether an id from the hub can name a file in the cache.
pub(super) fn is_safe_id(id: &str) -> bool {
    (1..=MAX_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns whether a hash is that of a file's content: the list of files has either the hash
/// itself, or git's hash of the pointer that contains it.
pub(super) fn is_hash_of(file: &RepoFile, hash: &str) -> bool {
    hash == file.id || pointer_hash(hash, file.size) == file.id
}

/// Finds a file's content among the blobs of its repository.
pub(super) fn find_blob(blobs: &Path, file: &RepoFile) -> Option<PathBuf> {
    let plain = blobs.join(&file.id);
    if plain.is_file() {
        return Some(plain);
    }
    let names = fs::read_dir(blobs).ok()?.flatten();
    let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let name = names.find(|name| is_sha256(name) && is_hash_of(file, name))?;
    Some(blobs.join(name))
}

/// Creates a partial file for one process alone, beside one that all would share. What an earlier process left there
/// becomes its beginning.
pub(super) fn own_partial(shared: &Path) -> std::io::Result<PathBuf> {
    let parent = shared.parent().unwrap_or(Path::new("."));
    let mut prefix = shared.file_stem().unwrap_or_default().to_os_string();
    prefix.push(".");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".incomplete");
    // Only one of several processes can take it.
    let own = builder.make_in(parent, |own| {
        fs::rename(shared, own).or_else(|_| File::create_new(own).map(drop))
    })?;
    Ok(own.into_temp_path().keep()?)
}

/// Links a blob under a file's name, `depth` folders below its snapshot, in one step: other
/// processes may do the same. Where there are no links, it is copied.
pub(super) fn link(blob: &Path, target: &Path, depth: usize) -> std::io::Result<()> {
    let parent = target.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    remove_abandoned(parent);
    let mut builder = tempfile::Builder::new();
    let link = builder.prefix(TEMPORARY_PREFIX).make_in(parent, |link| {
        #[cfg(unix)]
        {
            let mut relative = PathBuf::from("../../".to_string() + &"../".repeat(depth));
            relative.push("blobs");
            relative.extend(blob.file_name());
            let linked = std::os::unix::fs::symlink(relative, link);
            or_else_unless_taken(linked, || link_or_copy(blob, link))
        }
        #[cfg(not(unix))]
        {
            let _ = depth;
            link_or_copy(blob, link)
        }
    });
    link?.persist(target).map_err(|error| error.error)
}

fn link_or_copy(blob: &Path, link: &Path) -> std::io::Result<()> {
    or_else_unless_taken(fs::hard_link(blob, link), || {
        fs::copy(blob, link).map(|_| ())
    })
}

/// Does something else if a link failed, unless another process has taken its name.
fn or_else_unless_taken(
    linked: std::io::Result<()>,
    otherwise: impl FnOnce() -> std::io::Result<()>,
) -> std::io::Result<()> {
    match linked {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => otherwise(),
        linked => linked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_file_is_taken_by_one_process_only() {
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("id.incomplete");
        fs::write(&shared, "begun").unwrap();
        let [first, second] = [(); 2].map(|()| own_partial(&shared).unwrap());
        assert_eq!(fs::read(first).unwrap(), b"begun");
        assert_eq!(fs::read(second).unwrap(), b"");
        assert!(!shared.exists());
    }

    #[test]
    fn concurrent_links_to_one_file_do_not_collide() {
        let folder = tempfile::tempdir().unwrap();
        let (blobs, target) = (
            folder.path().join("blobs"),
            folder.path().join("snapshots/commit/a/file"),
        );
        fs::create_dir(&blobs).unwrap();
        fs::write(blobs.join("content"), "content").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        link(&blobs.join("content"), &target, 1).unwrap();
                        assert_eq!(fs::read(&target).unwrap(), b"content");
                    }
                });
            }
        });
        let left = fs::read_dir(target.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1);
    }
}

//! Downloads into the cache: continued, ended, checked; under their final names only when whole.

use std::{
    cell::Cell,
    fs::{self, File, OpenOptions, TryLockError},
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::Instant,
};

use futures_util::StreamExt;
use hf_hub::HFError;

use wisp_files::write_atomic;

use super::{
    super::{OnTransfer, RepoFile, RepoInfo, Transfer},
    Hub, MAX_ATTEMPTS, RepoError, TICK,
    explain::root,
    hash::{is_sha256, name_of, pointer_name},
    is_safe,
};

impl Hub {
    /// A file's path in the cache, after it was downloaded if need be.
    pub fn download(
        &self,
        info: &RepoInfo,
        file: &RepoFile,
        force: bool,
        on_transfer: OnTransfer<'_>,
    ) -> Result<PathBuf, RepoError> {
        let commit = info.commit.as_deref().unwrap_or(&self.revision);
        let safe_id = info.cached || is_content_name(&file.id);
        if !is_safe(&file.path) || !is_safe(commit) || !safe_id {
            return Err(RepoError::UnsafeName {
                repo: self.name.clone(),
                file: file.path.clone(),
            });
        }
        let target = self.snapshot(commit).join(&file.path);
        let whole = |path: &Path| fs::metadata(path).is_ok_and(|found| found.len() == file.size);
        if info.cached {
            return Ok(target);
        }
        let io = |path: &Path| {
            let path = path.to_path_buf();
            move |error| RepoError::io(&path, error)
        };
        if !force && whole(&target) {
            self.remember(commit).map_err(io(&self.folder()))?;
            return Ok(target);
        }
        // Contents are kept by their hash, so that commits share those that did not change, and programs too.
        let blobs = self.folder().join("blobs");
        fs::create_dir_all(&blobs).map_err(io(&blobs))?;
        let known = || find_blob(&blobs, file).filter(|blob| !force && whole(blob));
        let blob = match known() {
            Some(blob) => blob,
            None => {
                let _lock = self.lock(&file.id, file, on_transfer)?;
                // Another process may have finished it while this one waited.
                match known() {
                    Some(blob) => blob,
                    None => self.fetch_blob(commit, file, &blobs, force, on_transfer)?,
                }
            }
        };
        link(&blob, &target, file.path.matches('/').count()).map_err(io(&target))?;
        self.remember(commit).map_err(io(&self.folder()))?;
        Ok(target)
    }

    /// Notes which commit the revision is, for offline mode.
    fn remember(&self, commit: &str) -> std::io::Result<()> {
        let head = self.folder().join("refs").join(&self.revision);
        if commit == self.revision || fs::read_to_string(&head).is_ok_and(|old| old == commit) {
            return Ok(());
        }
        if let Some(parent) = head.parent() {
            fs::create_dir_all(parent)?;
        }
        write_atomic(&head, commit.as_bytes())
    }

    /// Waits until no other process downloads a content.
    fn lock(
        &self,
        id: &str,
        file: &RepoFile,
        on_transfer: OnTransfer<'_>,
    ) -> Result<File, RepoError> {
        let folder = self.folder();
        let locks = self.repo.client().cache_dir().join(".locks");
        let path = locks.join(folder.file_name().unwrap_or_default());
        fs::create_dir_all(&path).map_err(|error| RepoError::io(&path, error))?;
        // It stays, so that all processes lock the same file.
        let path = path.join(format!("{id}.lock"));
        let io = |error| RepoError::io(&path, error);
        let lock = File::create(&path).map_err(io)?;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(io(error)),
            }
            let transfer = Transfer {
                file: &file.path,
                done: 0,
                total: file.size,
            };
            if on_transfer(transfer).is_break() {
                return Err(RepoError::Interrupted);
            }
            std::thread::sleep(TICK);
        }
    }

    /// Downloads a content, goes on with what there is of it, and gives it its name if its hash is right.
    fn fetch_blob(
        &self,
        commit: &str,
        file: &RepoFile,
        blobs: &Path,
        force: bool,
        on_transfer: OnTransfer<'_>,
    ) -> Result<PathBuf, RepoError> {
        let partial = blobs.join(format!("{}.incomplete", file.id));
        let io = |error| RepoError::io(&partial, error);
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(force).read(true).write(true);
        let mut out = options.open(&partial).map_err(io)?;
        self.fetch(commit, file, &mut out, &partial, on_transfer)?;
        let name = self.content_name(commit, file, &mut out, &partial, on_transfer);
        if let Err(RepoError::Hash { .. }) = &name {
            drop(out);
            fs::remove_file(&partial).map_err(io)?;
            return name.map(PathBuf::from);
        }
        let name = name?;
        out.sync_all().map_err(io)?;
        let blob = blobs.join(name);
        fs::rename(&partial, &blob).map_err(|error| RepoError::io(&blob, error))?;
        Ok(blob)
    }

    /// The hash that a whole content has and should have.
    fn content_name(
        &self,
        commit: &str,
        file: &RepoFile,
        out: &mut File,
        partial: &Path,
        on_transfer: OnTransfer<'_>,
    ) -> Result<String, RepoError> {
        let whole = Transfer {
            file: &file.path,
            done: file.size,
            total: file.size,
        };
        let mut hash = |large| {
            let name = name_of(out, large, || on_transfer(whole).is_continue());
            let name = name.map_err(|error| RepoError::io(partial, error))?;
            name.ok_or(RepoError::Interrupted)
        };
        let name = hash(file.large)?;
        if is_content(file, &name) {
            return Ok(name);
        }
        // Not every hub tells rightly which files are large.
        let other = hash(!file.large)?;
        if is_content(file, &other) {
            return Ok(other);
        }
        let expected = match file.large {
            true => self.sha256_of(commit, file, on_transfer)?,
            false => file.id.clone(),
        };
        match name == expected {
            true => Ok(name),
            false => Err(RepoError::Hash {
                repo: self.name.clone(),
                file: file.path.clone(),
                expected,
                got: name,
            }),
        }
    }

    /// Asks for the SHA-256 of a file whose pointer was written by hand, in other words than usual.
    fn sha256_of(
        &self,
        commit: &str,
        file: &RepoFile,
        on_transfer: OnTransfer<'_>,
    ) -> Result<String, RepoError> {
        let metadata = self.repo.get_file_metadata().filepath(file.path.clone());
        let metadata = self.wait(metadata.revision(commit).send(), on_transfer)?;
        let problem = match metadata {
            Ok(metadata) if is_sha256(&metadata.etag) => return Ok(metadata.etag),
            Ok(_) => "its ETag is no SHA-256".into(),
            Err(error) => root(&error),
        };
        Err(RepoError::Unchecked {
            repo: self.name.clone(),
            file: file.path.clone(),
            problem,
        })
    }

    /// Completes a partial file, starting again where a connection breaks off.
    fn fetch(
        &self,
        commit: &str,
        file: &RepoFile,
        out: &mut File,
        partial: &Path,
        on_transfer: OnTransfer<'_>,
    ) -> Result<(), RepoError> {
        let io = |error| RepoError::io(partial, error);
        let mut attempts = 0;
        loop {
            let start = out.seek(SeekFrom::End(0)).map_err(io)?;
            if start == file.size {
                return Ok(());
            }
            let ended = if start > file.size {
                Ok(())
            } else {
                let part = self.fetch_part(commit, file, start, out, partial, on_transfer);
                self.block_on(part)??
            };
            let done = out.stream_position().map_err(io)?;
            if done == file.size {
                return Ok(());
            }
            if done > file.size {
                // Not the part that was asked for: nothing of it can be trusted.
                out.set_len(0).map_err(io)?;
            }
            if let Err(error) = &ended
                && !matches!(error, HFError::Request { .. } | HFError::Xet { .. })
            {
                return ended.map_err(|error| self.error(error));
            }
            attempts = if start < done && done < file.size {
                0
            } else {
                attempts
            };
            attempts += 1;
            if attempts >= MAX_ATTEMPTS {
                return Err(RepoError::Size {
                    repo: self.name.clone(),
                    file: file.path.clone(),
                    expected: file.size,
                    got: done,
                    problem: ended
                        .err()
                        .map_or(String::new(), |error| format!(": {}", root(&error))),
                });
            }
        }
    }

    /// Appends what the hub sends from `start` on, until it ends or a byte too many has come.
    async fn fetch_part(
        &self,
        commit: &str,
        file: &RepoFile,
        start: u64,
        out: &mut File,
        partial: &Path,
        on_transfer: OnTransfer<'_>,
    ) -> Result<Result<(), HFError>, RepoError> {
        let since = Cell::new(Instant::now());
        let done = Cell::new(start);
        let ask = || {
            on_transfer(Transfer {
                file: &file.path,
                done: done.get().min(file.size),
                total: file.size,
            })
        };
        let request = self
            .repo
            .download_file_stream()
            .filename(file.path.clone())
            .revision(commit.to_string())
            .maybe_range((start > 0).then_some(start..file.size))
            .send();
        let mut stream = match self.or_stop(request, &since, ask).await? {
            Ok((_, stream)) => stream,
            Err(error) => return Ok(Err(error)),
        };
        while done.get() <= file.size {
            since.set(Instant::now());
            match self.or_stop(stream.next(), &since, ask).await? {
                None => break,
                Some(Err(error)) => return Ok(Err(error)),
                Some(Ok(bytes)) => {
                    out.write_all(&bytes)
                        .map_err(|error| RepoError::io(partial, error))?;
                    done.set(done.get() + bytes.len() as u64);
                }
            }
            if ask().is_break() {
                return Err(RepoError::Interrupted);
            }
        }
        Ok(Ok(()))
    }
}

/// True for what can be a file's name in the cache.
fn is_content_name(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// True if a hash is that of a file's content, as the hub's list has it or a pointer that the list has.
fn is_content(file: &RepoFile, name: &str) -> bool {
    name == file.id || pointer_name(name, file.size) == file.id
}

/// A file's content among others. Large ones are known by a pointer that has their hash.
fn find_blob(blobs: &Path, file: &RepoFile) -> Option<PathBuf> {
    let plain = blobs.join(&file.id);
    if plain.is_file() {
        return Some(plain);
    }
    let names = fs::read_dir(blobs).ok()?.flatten();
    let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let name = names.find(|name| is_sha256(name) && is_content(file, name))?;
    Some(blobs.join(name))
}

/// Makes a blob known under a file's name, `depth` folders below its snapshot. Other processes may do the same.
fn link(blob: &Path, target: &Path, depth: usize) -> std::io::Result<()> {
    let parent = target.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    let mut builder = tempfile::Builder::new();
    let made = builder.prefix(".wisp-link-").make_in(parent, |link| {
        #[cfg(unix)]
        {
            let mut relative = PathBuf::from("../../".to_string() + &"../".repeat(depth));
            relative.push("blobs");
            relative.extend(blob.file_name());
            std::os::unix::fs::symlink(relative, link)
        }
        #[cfg(not(unix))]
        {
            let _ = depth;
            fs::hard_link(blob, link).or_else(|_| fs::copy(blob, link).map(|_| ()))
        }
    });
    // It replaces what is there in one step.
    made?.persist(target).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_link_at_once_do_not_collide() {
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

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

use super::{
    super::{OnTransfer, RepoFile, RepoInfo, Transfer},
    Hub, MAX_ATTEMPTS, RepoError, TICK,
    explain::root,
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
        let safe_id = file.id.bytes().all(|byte| byte.is_ascii_alphanumeric());
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
        // Contents are kept by their id, so that commits share those that did not change.
        let blobs = self.folder().join("blobs");
        fs::create_dir_all(&blobs).map_err(io(&blobs))?;
        let blob = blobs.join(&file.id);
        if force || !whole(&blob) {
            let partial = blobs.join(format!("{}.incomplete", file.id));
            let mut out = self.lock(&partial, file, on_transfer)?;
            // Another process may have finished it while this one waited.
            if force || !whole(&blob) {
                if force {
                    out.set_len(0).map_err(io(&partial))?;
                }
                self.fetch(commit, file, &mut out, &partial, on_transfer)?;
                out.sync_all().map_err(io(&partial))?;
                fs::rename(&partial, &blob).map_err(io(&blob))?;
            } else {
                fs::remove_file(&partial).map_err(io(&partial))?;
            }
        }
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
        fs::write(head, commit)
    }

    /// Opens a partial file for this process alone.
    fn lock(
        &self,
        partial: &Path,
        file: &RepoFile,
        on_transfer: OnTransfer<'_>,
    ) -> Result<File, RepoError> {
        let io = |error| RepoError::io(partial, error);
        loop {
            let mut options = OpenOptions::new();
            let options = options.create(true).truncate(false).read(true).write(true);
            let out = options.open(partial).map_err(io)?;
            match out.try_lock() {
                // The file under this name may be another one by now.
                Ok(()) if partial.exists() => return Ok(out),
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(io(error)),
            }
            let transfer = Transfer {
                file: &file.path,
                done: out.metadata().map_err(io)?.len().min(file.size),
                total: file.size,
            };
            if on_transfer(transfer).is_break() {
                return Err(RepoError::Interrupted);
            }
            std::thread::sleep(TICK);
        }
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

/// Makes a blob known under a file's name, `depth` folders below its snapshot.
fn link(blob: &Path, target: &Path, depth: usize) -> std::io::Result<()> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::remove_file(target) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    #[cfg(unix)]
    {
        let mut relative = PathBuf::from("../../".to_string() + &"../".repeat(depth));
        relative.push("blobs");
        relative.extend(blob.file_name());
        std::os::unix::fs::symlink(relative, target)
    }
    #[cfg(not(unix))]
    {
        let _ = depth;
        fs::hard_link(blob, target).or_else(|_| fs::copy(blob, target).map(|_| ()))
    }
}

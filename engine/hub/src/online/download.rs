//! Downloads into the cache. A partial file is continued, a complete one is checked against its
//! hash, and only a checked file gets its final name.

use std::{
    cell::Cell,
    fs::{self, File, OpenOptions},
    io::{Seek, SeekFrom, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use super::{
    blobs::{find_blob, is_hash_of, is_safe_id, link, own_partial},
    hash::{self, is_sha256},
    http::{self, HttpError, Refusal, Request, Response},
    repo::{OnlineRepo, is_safe_path},
};
use crate::{
    error::RepoError,
    info::{RepoFile, RepoInfo},
    transfer::{OnTransfer, Transfer},
};

/// How often in a row a transfer may bring no new bytes before the download fails.
const MAX_ATTEMPTS: usize = 5;
/// How long a transfer that broke after bytes of this or another file had arrived is tried again, as a multiple of the
/// time that a server may be silent: for three minutes, unless `HF_HUB_DOWNLOAD_TIMEOUT` says otherwise.
const PATIENCE: u32 = 6;
/// The fewest bytes that an attempt must bring to count as progress.
const MIN_PROGRESS: u64 = 64 << 10;
/// How many redirects within the hub a request for metadata follows.
const MAX_REDIRECTS: usize = 5;

impl OnlineRepo {
    /// Returns a file's path in the cache, downloading it first if the cache lacks it or `force` is
    /// set.
    pub fn download(
        &self,
        info: &RepoInfo,
        file: &RepoFile,
        force: bool,
        on_transfer: OnTransfer<'_>,
    ) -> Result<PathBuf, RepoError> {
        let commit = info.commit.as_deref().unwrap_or(&self.revision);
        let is_safe_id = info.from_cache || is_safe_id(&file.id);
        if !is_safe_path(&file.path) || !is_safe_path(commit) || !is_safe_id {
            return Err(RepoError::UnsafeFileName {
                repo: self.name.clone(),
                file: file.path.clone(),
            });
        }
        let target = self.cache().pointer_path(commit).join(&file.path);
        if info.from_cache {
            return Ok(target);
        }
        let is_complete =
            |path: &Path| fs::metadata(path).is_ok_and(|found| found.len() == file.size);
        if force || !is_complete(&target) {
            let blobs = self.folder().join("blobs");
            fs::create_dir_all(&blobs).map_err(|error| RepoError::io(&blobs, error))?;
            let find = || find_blob(&blobs, file).filter(|blob| !force && is_complete(blob));
            let blob = match find() {
                Some(blob) => blob,
                None => {
                    let download = Download {
                        hub: self,
                        commit,
                        file,
                        partial: blobs.join(format!("{}.incomplete", file.id)),
                        done: Cell::new(0),
                        on_transfer,
                    };
                    let lock = self.lock(file, &|| download.report())?;
                    // Another process may have finished the download in the meantime.
                    match find() {
                        Some(blob) => blob,
                        None if lock.is_some() => download.run(&blobs, force)?,
                        None => download.run_without_lock(&blobs, force)?,
                    }
                }
            };
            link(&blob, &target, file.path.matches('/').count())
                .map_err(|error| RepoError::io(&target, error))?;
        }
        self.write_ref(commit)
            .map_err(|error| RepoError::io(&self.folder(), error))?;
        Ok(target)
    }
}

/// The download of one content.
struct Download<'d> {
    hub: &'d OnlineRepo,
    commit: &'d str,
    file: &'d RepoFile,
    /// The file that collects the content until it is complete and checked.
    partial: PathBuf,
    /// Bytes in the partial file.
    done: Cell<u64>,
    on_transfer: OnTransfer<'d>,
}

/// A time without progress.
struct Outage {
    since: Instant,
    /// The pause before the next attempt.
    pause: Duration,
    is_reported: bool,
}

impl Outage {
    fn begin() -> Outage {
        Outage {
            since: Instant::now(),
            pause: http::FIRST_PAUSE,
            is_reported: false,
        }
    }
}

impl Download<'_> {
    /// Reports the progress of the download to the caller.
    fn report(&self) -> ControlFlow<()> {
        (self.on_transfer)(Transfer {
            file: &self.file.path,
            done: self.done.get().min(self.file.size),
            total: self.file.size,
        })
    }

    fn io(&self, error: std::io::Error) -> RepoError {
        RepoError::io(&self.partial, error)
    }

    fn explain(&self, error: HttpError) -> RepoError {
        self.hub.explain(error, Some(&self.file.path))
    }

    /// Returns whether the hub has sent any bytes of files.
    fn has_received(&self) -> bool {
        self.hub.has_received.load(Ordering::Relaxed)
    }

    /// Does what [`Self::run`] does where no lock keeps other processes away, with a partial file of its own.
    fn run_without_lock(mut self, blobs: &Path, restart: bool) -> Result<PathBuf, RepoError> {
        let own = own_partial(&self.partial).map_err(|error| self.io(error))?;
        let shared = std::mem::replace(&mut self.partial, own);
        let blob = self.run(blobs, restart);
        if blob.is_err() {
            // The next run continues it.
            let _ = fs::rename(&self.partial, &shared);
        }
        blob
    }

    /// Completes the partial file, or starts again if `restart` is set, and renames it to its hash.
    /// A content with a wrong hash is deleted.
    fn run(&self, blobs: &Path, restart: bool) -> Result<PathBuf, RepoError> {
        // Something that is no file could be neither continued nor read to its end.
        let is_file = |found: fs::Metadata| found.is_file() || found.is_dir();
        if !fs::symlink_metadata(&self.partial).is_ok_and(is_file) {
            let _ = fs::remove_file(&self.partial);
        }
        let mut options = OpenOptions::new();
        let options = options
            .create(true)
            .truncate(restart)
            .read(true)
            .write(true);
        let mut out = options
            .open(&self.partial)
            .map_err(|error| self.io(error))?;
        self.complete(&mut out)?;
        let hash = match self.checked_hash(&mut out) {
            Err(error @ RepoError::HashMismatch { .. }) => {
                drop(out);
                fs::remove_file(&self.partial).map_err(|error| self.io(error))?;
                return Err(error);
            }
            hash => hash?,
        };
        out.sync_all().map_err(|error| self.io(error))?;
        let blob = blobs.join(hash);
        match fs::rename(&self.partial, &blob) {
            Ok(()) => Ok(blob),
            // Another process was faster, and has the file open on a system where it then cannot be replaced.
            Err(_) if fs::metadata(&blob).is_ok_and(|found| found.len() == self.file.size) => {
                let _ = fs::remove_file(&self.partial);
                Ok(blob)
            }
            Err(error) => Err(RepoError::io(&blob, error)),
        }
    }

    /// Requests what is missing until the file is complete.
    fn complete(&self, out: &mut File) -> Result<(), RepoError> {
        let size = self.file.size;
        let mut attempts = 0;
        // The most bytes of the file so far. A server that ignores ranges sends it from its beginning again, which is no
        // progress until there are more.
        let mut reached = 0;
        let mut outage = Outage::begin();
        loop {
            let start = out.seek(SeekFrom::End(0)).map_err(|error| self.io(error))?;
            self.done.set(start);
            if start < size {
                reached = reached.max(start);
            }
            let failure = match start < size {
                true => self.request_rest(out)?.err(),
                false => None,
            };
            let done = self.done.get();
            if done == size {
                return Ok(());
            }
            if done > size {
                // The server sent something else than the requested part.
                out.set_len(0).map_err(|error| self.io(error))?;
            }
            let progress = match done < size {
                true => done.saturating_sub(reached),
                false => 0,
            };
            reached += progress;
            let problem = match failure {
                Some(error) if self.has_received() => {
                    if progress >= MIN_PROGRESS {
                        outage = Outage::begin();
                    }
                    self.sit_out(&mut outage, error)?;
                    continue;
                }
                Some(error) => format!(": {}", self.hub.cause(&error)),
                None => String::new(),
            };
            attempts = match progress > 0 {
                true => 1,
                false => attempts + 1,
            };
            if attempts >= MAX_ATTEMPTS {
                return Err(RepoError::WrongSize {
                    repo: self.hub.name.clone(),
                    file: self.file.path.clone(),
                    expected: size,
                    received: done,
                    problem,
                });
            }
        }
    }

    /// Waits before a broken transfer is tried again, longer each time, or for as long as the server asks.
    ///
    /// # Errors
    ///
    /// If there was no progress for too long.
    fn sit_out(&self, outage: &mut Outage, error: HttpError) -> Result<(), RepoError> {
        let timeout = self.hub.settings.timeout;
        let patience = timeout * PATIENCE;
        let problem = self.hub.cause(&error);
        let pause = outage.pause.max(error.pause());
        if outage.since.elapsed().saturating_add(pause) > patience {
            return Err(match error {
                HttpError::Status(Refusal { status: 429, .. }) => self.explain(error),
                _ => RepoError::Broken {
                    repo: self.hub.name.clone(),
                    endpoint: self.hub.settings.endpoint.clone(),
                    file: self.file.path.clone(),
                    received: self.done.get().min(self.file.size),
                    expected: self.file.size,
                    problem,
                },
            });
        }
        if !std::mem::replace(&mut outage.is_reported, true) {
            tracing::warn!(
                "the transfer of {} from {} broke, and is tried again for {} s: {problem}",
                self.file.path,
                self.hub.settings.endpoint,
                patience.as_secs_f64().round()
            );
        }
        http::wait(pause, &|| self.report()).map_err(|error| self.explain(error))?;
        outage.pause = (outage.pause * 2).min(timeout);
        Ok(())
    }

    /// Returns whether a transfer that failed may be continued.
    fn can_continue(&self, error: &HttpError) -> bool {
        let has_received = self.has_received();
        match error {
            HttpError::Connection(_) => true,
            HttpError::Stalled => has_received,
            HttpError::Status(refusal) => {
                has_received && (matches!(refusal.status, 408 | 429) || refusal.status >= 500)
            }
            HttpError::Malformed(_) | HttpError::Cancelled => false,
        }
    }

    /// Appends what the hub sends from the end of the partial file on, until the answer ends or is
    /// longer than the file. The inner error is that of a transfer that broke, which can be continued.
    fn request_rest(&self, out: &mut File) -> Result<Result<(), HttpError>, RepoError> {
        let start = self.done.get();
        let range = (start > 0).then_some(start..self.file.size);
        let mut response = match self.request(None, range, true) {
            Ok(response) => response,
            Err(error) if self.has_received() && self.can_continue(&error) => {
                return Ok(Err(error));
            }
            // It was repeated already.
            Err(error) => return Err(self.explain(error)),
        };
        if start > 0 && response.status != 206 {
            // The server ignores ranges and sends the whole file.
            out.set_len(0).map_err(|error| self.io(error))?;
            out.rewind().map_err(|error| self.io(error))?;
            self.done.set(0);
        }
        while self.done.get() <= self.file.size {
            match response.chunk(&|| self.report()) {
                Ok(Some(bytes)) => {
                    out.write_all(&bytes).map_err(|error| self.io(error))?;
                    self.done.set(self.done.get() + bytes.len() as u64);
                    self.hub.has_received.store(true, Ordering::Relaxed);
                }
                Ok(None) => break,
                Err(error) if self.can_continue(&error) => return Ok(Err(error)),
                Err(error) => return Err(self.explain(error)),
            }
            if self.report().is_break() {
                return Err(RepoError::Interrupted);
            }
        }
        Ok(Ok(()))
    }

    /// Requests the file from its address, or from where the hub has redirected to.
    fn request(
        &self,
        url: Option<&str>,
        range: Option<std::ops::Range<u64>>,
        follow_redirects: bool,
    ) -> Result<Response, HttpError> {
        let repo = self.hub.at(self.commit);
        let own_url = repo.url(&http::encode_path(&self.file.path));
        let request = Request {
            url: url.unwrap_or(&own_url),
            repo: &repo,
            range,
            follow_redirects,
            timeout: self.hub.settings.timeout,
        };
        request.send(&|| self.report())
    }

    /// Returns the complete file's hash, if it is the one that the hub promises.
    fn checked_hash(&self, out: &mut File) -> Result<String, RepoError> {
        let mut hash_as = |is_large| {
            let hash = hash::content_hash(out, is_large, || self.report().is_continue());
            let hash = hash.map_err(|error| self.io(error))?;
            hash.ok_or(RepoError::Interrupted)
        };
        let hash = hash_as(self.file.is_large)?;
        if is_hash_of(self.file, &hash) {
            return Ok(hash);
        }
        // Some hubs do not mark large files in the list.
        let other = hash_as(!self.file.is_large)?;
        if is_hash_of(self.file, &other) {
            return Ok(other);
        }
        let expected = match self.file.is_large {
            true => self.request_sha256()?,
            false => self.file.id.clone(),
        };
        match hash == expected {
            true => Ok(hash),
            false => Err(RepoError::HashMismatch {
                repo: self.hub.name.clone(),
                file: self.file.path.clone(),
                expected,
                actual: hash,
            }),
        }
    }

    /// Asks for the SHA-256 of a file whose pointer is not written in the usual words. The hub
    /// sends it with the redirect to the content.
    fn request_sha256(&self) -> Result<String, RepoError> {
        let mut url: Option<String> = None;
        let mut problem = String::from("too many redirects");
        for _ in 0..MAX_REDIRECTS {
            let response = match self.request(url.as_deref(), Some(0..1), false) {
                Ok(response) => response,
                Err(error @ (HttpError::Cancelled | HttpError::Stalled)) => {
                    return Err(self.explain(error));
                }
                Err(error) => {
                    problem = self.explain(error).to_string();
                    break;
                }
            };
            let etag = response.header("x-linked-etag");
            let etag = etag.or_else(|| response.header("etag")).unwrap_or_default();
            let etag = etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"');
            if is_sha256(etag) {
                return Ok(etag.to_owned());
            }
            // A repository that was renamed redirects within the hub.
            let location = response.header("location").filter(|to| to.starts_with('/'));
            let Some(location) = location.filter(|to| !to.starts_with("//")) else {
                problem = "its ETag is not a SHA-256".into();
                break;
            };
            url = Some(format!("{}{location}", self.hub.settings.origin()));
        }
        Err(RepoError::Unverified {
            repo: self.hub.name.clone(),
            file: self.file.path.clone(),
            problem,
        })
    }
}

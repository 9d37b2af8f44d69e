//! Repositories of a hub, through Hugging Face's own client, `hf-hub`.
//!
//! The client knows the hub's routes, tokens, retries and Xet storage. Its own download into the
//! cache can neither continue a partial file, nor be ended, nor does it look at the answer's status;
//! so the bytes come from its streams here, and are put into the same cache. A file is called by its
//! final name only when it is whole. Offline mode (`HF_HUB_OFFLINE`) is ours as well.

use std::{
    cell::Cell,
    collections::BTreeSet,
    fs::{self, File, OpenOptions, TryLockError},
    future::Future,
    io::{Seek, SeekFrom, Write},
    ops::ControlFlow,
    path::{Component, Path, PathBuf},
    pin::pin,
    time::{Duration, Instant},
};

use futures_util::StreamExt;
use hf_hub::{
    HFClient, HFError, HFRepository,
    repository::{RepoTreeEntry, RepoTypeModel},
    split_id,
};

use super::{OnTransfer, RepoError, RepoFile, RepoInfo, Transfer, local};

/// How often the caller is asked whether to go on.
const TICK: Duration = Duration::from_millis(100);
/// How often a download that brings nothing new is tried again.
const MAX_ATTEMPTS: usize = 5;
/// Seconds without a byte before a transfer is given up, unless `HF_HUB_DOWNLOAD_TIMEOUT` says.
const DEFAULT_TIMEOUT: u64 = 30;

/// A repository of a hub.
pub(super) struct Hub {
    repo: HFRepository<RepoTypeModel>,
    name: String,
    revision: String,
    offline: bool,
    timeout: Duration,
    /// `Some` until it is dropped.
    runtime: Option<tokio::runtime::Runtime>,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub")
            .field("name", &self.name)
            .field("revision", &self.revision)
            .field("offline", &self.offline)
            .finish_non_exhaustive()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // Waiting for its threads would panic inside another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Whether a variable such as `HF_HUB_OFFLINE` is on.
fn is_on(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|text| {
        ["1", "true", "yes", "on"].contains(&text.trim().to_ascii_lowercase().as_str())
    })
}

/// The client, set up as Hugging Face's variables say.
fn client() -> Result<HFClient, HFError> {
    HFClient::builder()
        .user_agent(concat!("wisp/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Where downloaded models are kept.
///
/// # Errors
///
/// If `HF_ENDPOINT` is no address.
pub fn cache_directory() -> Result<PathBuf, RepoError> {
    let client = client().map_err(no_client)?;
    Ok(client.cache_dir().to_path_buf())
}

/// A repository in the cache.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CachedModel {
    /// What it is called: `org/name`.
    pub repo_id: String,
    /// Its commits and the branches and tags that lead to them.
    pub revisions: Vec<CachedRevision>,
    /// Bytes that it takes.
    pub bytes: u64,
}

/// A commit of a repository in the cache.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CachedRevision {
    /// The commit.
    pub commit: String,
    /// Branches and tags.
    pub refs: Vec<String>,
    /// Files with weights.
    pub weights: Vec<String>,
}

/// The models in the cache, by name.
///
/// # Errors
///
/// If the cache cannot be read.
pub fn cached_models() -> Result<Vec<CachedModel>, RepoError> {
    let client = client().map_err(no_client)?;
    let cache = client.cache_dir().to_path_buf();
    // Scanning reads folders and waits for nothing.
    let scanned = runtime()?.block_on(client.scan_cache().send());
    let scanned = scanned.map_err(|error| RepoError::Io {
        path: cache.display().to_string(),
        source: std::io::Error::other(error.to_string()),
    })?;
    let models = scanned
        .repos
        .into_iter()
        .filter(|repo| repo.repo_type == "model");
    let mut models: Vec<CachedModel> = models
        .map(|repo| CachedModel {
            repo_id: repo.repo_id,
            bytes: repo.size_on_disk,
            revisions: repo
                .revisions
                .into_iter()
                .map(|revision| CachedRevision {
                    commit: revision.commit_hash,
                    refs: revision.refs,
                    weights: revision
                        .files
                        .into_iter()
                        .map(|file| file.file_name)
                        .filter(|name| super::WeightsFormat::of(name).is_some())
                        .collect(),
                })
                .collect(),
        })
        .collect();
    models.sort_by(|a, b| a.repo_id.cmp(&b.repo_id));
    Ok(models)
}

fn no_client(error: HFError) -> RepoError {
    RepoError::Unreachable {
        repo: "the hub".into(),
        endpoint: std::env::var("HF_ENDPOINT").unwrap_or_default(),
        problem: chain(&error),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, RepoError> {
    if tokio::runtime::Handle::try_current().is_ok() {
        return Err(RepoError::InsideRuntime);
    }
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| RepoError::Io {
            path: "the network".into(),
            source,
        })
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    shown(&text)
}

/// Words from elsewhere, made fit for one line of a terminal.
fn shown(text: &str) -> String {
    const MOST: usize = 300;
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MOST)
        .collect();
    line.trim().to_string()
}

/// True if a name of the hub's is safe as a path below a folder.
fn is_safe(path: &str) -> bool {
    let plain = |part| matches!(part, Component::Normal(_));
    !path.is_empty() && !path.contains(['\\', '\0', ':']) && Path::new(path).components().all(plain)
}

impl Hub {
    /// Asks the hub for a repository; the cache, if the hub must not or cannot be asked.
    pub fn open(
        name: &str,
        revision: &str,
        on_transfer: OnTransfer<'_>,
    ) -> Result<(Hub, RepoInfo), RepoError> {
        let client = client().map_err(no_client)?;
        let (owner, repo) = split_id(name);
        let timeout = std::env::var("HF_HUB_DOWNLOAD_TIMEOUT")
            .ok()
            .and_then(|seconds| seconds.trim().parse::<f64>().ok())
            .filter(|seconds| *seconds > 0.0 && *seconds < 1e6)
            .map_or(
                Duration::from_secs(DEFAULT_TIMEOUT),
                Duration::from_secs_f64,
            );
        let hub = Hub {
            repo: client.model(owner, repo),
            name: name.into(),
            revision: revision.into(),
            offline: is_on("HF_HUB_OFFLINE"),
            timeout,
            runtime: Some(runtime()?),
        };
        if !is_safe(revision) || !is_safe(name) {
            return Err(hub.hub_error("the name of a repository or revision is not valid"));
        }
        let info = if hub.offline {
            hub.cached()?.ok_or_else(|| hub.not_cached("it"))?
        } else {
            match hub.wait(hub.fetch_info(), on_transfer)? {
                Err(error @ HFError::Request { .. }) => match hub.cached()? {
                    Some(cached) => cached,
                    None => return Err(hub.error(error)),
                },
                answer => answer.map_err(|error| hub.error(error))?,
            }
        };
        Ok((hub, info))
    }

    /// The commit and the list of files.
    async fn fetch_info(&self) -> Result<RepoInfo, HFError> {
        let wanted = (self.revision != "main").then(|| self.revision.clone());
        let model = self.repo.info().maybe_revision(wanted).send().await?;
        let commit = model.sha.clone().unwrap_or_else(|| self.revision.clone());
        let dtypes = model.safetensors.map(|known| known.parameters);
        let tree = self
            .repo
            .list_tree()
            .revision(commit.clone())
            .recursive(true);
        let mut tree = pin!(tree.send()?);
        let mut files = Vec::new();
        while let Some(entry) = tree.next().await {
            if let RepoTreeEntry::File {
                oid, size, path, ..
            } = entry?
            {
                files.push(RepoFile {
                    path,
                    size,
                    id: oid,
                });
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(RepoInfo {
            commit: Some(commit),
            cached: false,
            files,
            dtypes: dtypes
                .into_iter()
                .flatten()
                .map(|(name, _)| name)
                .collect::<BTreeSet<_>>(),
        })
    }

    /// Runs something on the network, while the caller may break off.
    fn wait<T>(
        &self,
        what: impl Future<Output = T>,
        on_transfer: OnTransfer<'_>,
    ) -> Result<T, RepoError> {
        let transfer = Transfer {
            file: &self.name,
            done: 0,
            total: 0,
        };
        let since = Cell::new(Instant::now());
        self.block_on(self.or_stop(what, &since, || on_transfer(transfer)))?
    }

    fn block_on<T>(&self, what: impl Future<Output = T>) -> Result<T, RepoError> {
        match &self.runtime {
            Some(runtime) if tokio::runtime::Handle::try_current().is_err() => {
                Ok(runtime.block_on(what))
            }
            _ => Err(RepoError::InsideRuntime),
        }
    }

    /// Ends something early if the caller breaks off, or nothing came since `since` for too long.
    async fn or_stop<T>(
        &self,
        what: impl Future<Output = T>,
        since: &Cell<Instant>,
        ask: impl Fn() -> ControlFlow<()>,
    ) -> Result<T, RepoError> {
        let mut what = pin!(what);
        loop {
            if let Ok(done) = tokio::time::timeout(TICK, &mut what).await {
                return Ok(done);
            }
            if ask().is_break() {
                return Err(RepoError::Interrupted);
            }
            if since.get().elapsed() > self.timeout {
                return Err(RepoError::Stalled {
                    repo: self.name.clone(),
                    endpoint: self.endpoint(),
                    seconds: self.timeout.as_secs_f64().round() as u64,
                });
            }
        }
    }

    fn endpoint(&self) -> String {
        self.repo.client().endpoint().into()
    }

    /// The repository's folder in the cache.
    fn folder(&self) -> PathBuf {
        let folder = format!("models--{}", self.name.replace('/', "--"));
        self.repo.client().cache_dir().join(folder)
    }

    fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder().join("snapshots").join(commit)
    }

    /// What the cache has of the revision.
    fn cached(&self) -> Result<Option<RepoInfo>, RepoError> {
        let head = self.folder().join("refs").join(&self.revision);
        let commit = fs::read_to_string(head).unwrap_or(self.revision.clone());
        let commit = commit.trim();
        if !is_safe(commit) || !self.snapshot(commit).is_dir() {
            return Ok(None);
        }
        Ok(Some(RepoInfo {
            commit: Some(commit.into()),
            cached: true,
            files: local::list(&self.snapshot(commit))?,
            ..RepoInfo::default()
        }))
    }

    fn not_cached(&self, what: &str) -> RepoError {
        RepoError::Offline {
            repo: self.name.clone(),
            what: what.into(),
            cache: self.repo.client().cache_dir().display().to_string(),
        }
    }

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
        if info.cached || (!force && whole(&target)) {
            return Ok(target);
        }
        let io = |path: &Path| {
            let path = path.to_path_buf();
            move |error| RepoError::io(&path, error)
        };
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
                        .map_or(String::new(), |error| format!(": {}", chain(&error))),
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

    fn hub_error(&self, problem: &str) -> RepoError {
        RepoError::Hub {
            repo: self.name.clone(),
            endpoint: self.endpoint(),
            problem: shown(problem),
        }
    }

    /// An error of the client's in the words of ours.
    fn error(&self, error: HFError) -> RepoError {
        let (repo, endpoint) = (self.name.clone(), self.endpoint());
        let gated = |code: &Option<String>| code.as_deref() == Some("GatedRepo");
        match error {
            HFError::AuthRequired { context } | HFError::Forbidden { context }
                if gated(&context.error_code) =>
            {
                RepoError::Gated { repo, endpoint }
            }
            HFError::AuthRequired { .. } => RepoError::Unauthorised { repo, endpoint },
            HFError::Forbidden { context } => RepoError::Forbidden {
                repo,
                endpoint,
                message: context
                    .server_message
                    .map_or(String::new(), |message| format!(": {}", shown(&message))),
            },
            HFError::RepoNotFound { .. } => RepoError::Missing { repo, endpoint },
            HFError::RevisionNotFound { revision, .. } => RepoError::NoRevision {
                repo,
                revision,
                endpoint,
            },
            HFError::EntryNotFound { path, .. } => RepoError::NoFile {
                repo,
                file: path,
                there_are: Vec::new(),
            },
            HFError::RateLimited { retry_after, .. } => RepoError::RateLimited {
                endpoint,
                after_seconds: retry_after.map(|after| after.as_secs()),
            },
            HFError::Http { context } => {
                let message = context.server_message.unwrap_or_default();
                self.hub_error(&format!("the hub answers {} {message}", context.status))
            }
            error @ HFError::Request { .. } => RepoError::Unreachable {
                repo,
                endpoint,
                problem: chain(&error),
            },
            other => self.hub_error(&chain(&other)),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for safe in [
            "main",
            "a/b.gguf",
            "refs/pr/1",
            "Q4_K_M/x-00001-of-00002.gguf",
        ] {
            assert!(is_safe(safe), "{safe}");
        }
        for unsafe_name in [
            "",
            "..",
            "../x",
            "a/../../x",
            "/etc/passwd",
            "a\\..\\b",
            "C:x",
            "./a",
        ] {
            assert!(!is_safe(unsafe_name), "{unsafe_name}");
        }
    }

    #[test]
    fn a_runtime_is_not_blocked() {
        let outer = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let error = outer.block_on(async { runtime().err() });
        assert!(matches!(error, Some(RepoError::InsideRuntime)));
    }
}

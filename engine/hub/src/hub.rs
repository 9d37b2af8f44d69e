//! Repositories of a hub, through Hugging Face's own client, `hf-hub`.
//!
//! The client knows the hub's routes, tokens, retries and Xet storage. Its own download into the
//! cache can neither continue a partial file, nor be ended, nor does it look at the answer's status;
//! so the bytes come from its streams here, and are put into the same cache. A file is called by its
//! final name only when it is whole and its hash is right. Offline mode (`HF_HUB_OFFLINE`) is ours as well.

mod cached;
mod download;
mod explain;
mod hash;

use std::{
    cell::Cell,
    collections::BTreeSet,
    fs,
    future::Future,
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
use explain::root;
use wisp_weights::WeightsFormat;

pub use cached::{CachedModel, CachedRevision, cache_directory, cached_models};

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";
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
    let builder = HFClient::builder().user_agent(concat!("wisp/", env!("CARGO_PKG_VERSION")));
    match std::env::var("HF_ENDPOINT") {
        // The client takes an empty variable for an address.
        Ok(empty) if empty.is_empty() => builder.endpoint(DEFAULT_ENDPOINT).build(),
        _ => builder.build(),
    }
}

fn no_client(error: HFError) -> RepoError {
    RepoError::Unreachable {
        repo: "HF_ENDPOINT".into(),
        endpoint: std::env::var("HF_ENDPOINT").unwrap_or_default(),
        problem: root(&error),
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

/// True if the hub cannot be asked at the moment, whatever it would be asked for.
fn is_away(error: &HFError) -> bool {
    match error {
        HFError::Request { .. } | HFError::RateLimited { .. } => true,
        // The list of files knows no other error than this one.
        HFError::Http { context } => context.status.is_server_error() || context.status == 429,
        _ => false,
    }
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
            let (problem, is_away) = match hub.wait(hub.fetch_info(), on_transfer) {
                Ok(Ok(info)) => return Ok((hub, info)),
                Ok(Err(error)) => {
                    let is_away = is_away(&error);
                    (hub.error(error), is_away)
                }
                Err(error) => {
                    let is_away = matches!(error, RepoError::Stalled { .. });
                    (error, is_away)
                }
            };
            let cached = if is_away { hub.cached()? } else { None };
            let has_weights = |info: &RepoInfo| {
                let mut files = info.files.iter();
                files.any(|file| WeightsFormat::of(&file.path).is_some())
            };
            cached.filter(has_weights).ok_or(problem)?
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
                oid,
                size,
                path,
                lfs,
                ..
            } = entry?
            {
                files.push(RepoFile {
                    path,
                    size,
                    id: oid,
                    large: lfs.is_some(),
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
            files: local::list(&self.snapshot(commit), local::CACHE_DEPTH)?,
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

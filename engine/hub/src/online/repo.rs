//! A repository of a hub: how it is addressed, and where it lies in the cache.

use std::{
    path::{Component, Path, PathBuf},
    sync::atomic::AtomicBool,
};

use hf_hub::{
    CacheRepo, Repo, RepoType,
    api::sync::{Api, ApiBuilder, ApiRepo},
};

use super::{
    http::{encode, encode_path},
    settings::Settings,
    words::{one_line, root_cause},
};
use crate::{error::RepoError, folder, info::RepoInfo};
use wisp_files::{FileKind, read_small_text};

/// A repository of a hub, at one revision.
pub(crate) struct OnlineRepo {
    api: Api,
    pub(super) settings: Settings,
    pub(super) name: String,
    pub(super) revision: String,
    /// Whether the hub has sent any bytes of files: from then on, a transfer that breaks is an outage that may pass.
    pub(super) has_received: AtomicBool,
}

impl std::fmt::Debug for OnlineRepo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The client and the settings hold the token.
        f.debug_struct("OnlineRepo")
            .field("name", &self.name)
            .field("revision", &self.revision)
            .field("endpoint", &self.settings.endpoint)
            .finish_non_exhaustive()
    }
}

impl OnlineRepo {
    /// Prepares requests for a repository; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// If a setting, the name or the revision is not valid.
    pub fn new(name: &str, revision: &str) -> Result<OnlineRepo, RepoError> {
        let settings = Settings::from_environment()?;
        let api = ApiBuilder::from_cache(settings.cache.clone())
            .with_endpoint(settings.endpoint.clone())
            .with_token(settings.token.clone())
            .with_user_agent("wisp", env!("CARGO_PKG_VERSION"))
            .build();
        let hub = OnlineRepo {
            api: api.map_err(|error| RepoError::InvalidSetting {
                variable: "HF_ENDPOINT",
                problem: root_cause(&error),
            })?,
            settings,
            name: name.into(),
            revision: revision.into(),
            has_received: AtomicBool::new(false),
        };
        match is_safe_path(revision) && is_safe_path(name) {
            true => Ok(hub),
            false => Err(RepoError::InvalidName {
                repo: hub.name,
                revision: hub.revision,
            }),
        }
    }

    /// Returns the client's handle of the repository at a revision.
    pub fn at(&self, revision: &str) -> ApiRepo {
        let name = encode_path(&self.name);
        let revision = encode(revision);
        self.api
            .repo(Repo::with_revision(name, RepoType::Model, revision))
    }

    /// Returns the client's view of the repository's folder in the cache.
    pub fn cache(&self) -> CacheRepo {
        let repo = Repo::with_revision(self.name.clone(), RepoType::Model, self.revision.clone());
        self.settings.cache.repo(repo)
    }

    /// Returns the repository's folder in the cache.
    pub fn folder(&self) -> PathBuf {
        let name = Repo::model(self.name.clone()).folder_name();
        self.settings.cache.path().join(name)
    }

    /// Returns what the cache has of the revision, if it has anything; `reason` says why the hub does not answer.
    pub fn cached(&self, reason: &str) -> Result<Option<RepoInfo>, RepoError> {
        let reference = self.folder().join("refs").join(&self.revision);
        let commit = read_small_text(&reference, FileKind::Line).unwrap_or(self.revision.clone());
        let commit = commit.trim();
        let snapshot = self.cache().pointer_path(commit);
        if !is_safe_path(commit) || !snapshot.is_dir() {
            return Ok(None);
        }
        Ok(Some(RepoInfo {
            commit: Some(commit.into()),
            from_cache: true,
            cache_reason: Some(reason.into()),
            files: folder::list(&snapshot, folder::CACHE_DEPTH)?,
            ..RepoInfo::default()
        }))
    }

    /// The error of an answer that cannot be used.
    pub fn bad_response(&self, problem: &str) -> RepoError {
        RepoError::BadResponse {
            repo: self.name.clone(),
            endpoint: self.settings.endpoint.clone(),
            problem: one_line(problem),
        }
    }

    /// The error of something that the cache lacks while the hub does not answer.
    pub fn not_cached(&self, wanted: &str, reason: &str, available: Vec<String>) -> RepoError {
        RepoError::NotCached {
            repo: self.name.clone(),
            wanted: wanted.into(),
            cache: self.settings.cache.path().display().to_string(),
            reason: reason.into(),
            available,
        }
    }
}

/// Returns whether a name from the hub stays below the folder that it is joined to.
pub(super) fn is_safe_path(path: &str) -> bool {
    let is_plain = |part| matches!(part, Component::Normal(_));
    !path.is_empty()
        && !path.contains(['\\', '\0', ':'])
        && Path::new(path).components().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_their_folder_are_unsafe() {
        for path in [
            "main",
            "a/b.gguf",
            "refs/pr/1",
            "Q4_K_M/x-00001-of-00002.gguf",
        ] {
            assert!(is_safe_path(path), "{path}");
        }
        for path in [
            "",
            "..",
            "../x",
            "a/../../x",
            "/etc/passwd",
            "a\\..\\b",
            "C:x",
            "./a",
        ] {
            assert!(!is_safe_path(path), "{path}");
        }
    }
}

//! The models that are in the cache.

use std::path::PathBuf;

use super::{RepoError, client, no_client, runtime};
use wisp_weights::WeightsFormat;

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
                        .filter(|name| WeightsFormat::of(name).is_some())
                        .collect(),
                })
                .collect(),
        })
        .collect();
    models.sort_by(|a, b| a.repo_id.cmp(&b.repo_id));
    Ok(models)
}

//! The models that are in the cache.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use super::settings;
use crate::{error::RepoError, folder};
use wisp_files::{FileKind, read_small_text};
use wisp_weights::WeightsFormat;

/// Returns the folder of Hugging Face's cache, where downloaded models are kept.
///
/// # Errors
///
/// If no variable names the folder and the user has no home directory.
pub fn cache_directory() -> Result<PathBuf, RepoError> {
    settings::cache_directory()
}

/// A repository in the cache.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct CachedModel {
    /// The repository's name, `org/name`.
    pub repo_id: String,
    /// The commits of which files are in the cache.
    pub revisions: Vec<CachedRevision>,
    /// Bytes on disk. Commits that share a file share its bytes.
    pub bytes: u64,
}

/// A commit of a repository in the cache.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct CachedRevision {
    /// The commit's hash.
    pub commit: String,
    /// The branches and tags that named this commit when it was downloaded.
    pub refs: Vec<String>,
    /// The files with weights, by their paths in the repository.
    pub weights: Vec<String>,
}

/// Returns the models in the cache, by name; none if there is no cache yet.
///
/// # Errors
///
/// If the cache cannot be found or read.
pub fn cached_models() -> Result<Vec<CachedModel>, RepoError> {
    let cache = settings::cache_directory()?;
    let mut models = Vec::new();
    for (name, path) in subfolders(&cache)? {
        if let Some(id) = name.strip_prefix("models--") {
            models.push(cached_model(id.replace("--", "/"), &path)?);
        }
    }
    models.sort_by(|a, b| a.repo_id.cmp(&b.repo_id));
    Ok(models)
}

/// Returns the names and paths of the folders in a folder; none if it does not exist.
fn subfolders(folder: &Path) -> Result<Vec<(String, PathBuf)>, RepoError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(RepoError::io(folder, error)),
    };
    let folders = entries.flatten().filter(|entry| entry.path().is_dir());
    let named =
        folders.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())));
    Ok(named.collect())
}

fn cached_model(repo_id: String, folder: &Path) -> Result<CachedModel, RepoError> {
    let refs = refs(&folder.join("refs"));
    let mut sizes = BTreeMap::new();
    let mut revisions = Vec::new();
    for (commit, snapshot) in subfolders(&folder.join("snapshots"))? {
        let files = folder::list(&snapshot, folder::CACHE_DEPTH)?;
        for file in &files {
            // On Unix a snapshot holds links, and commits may share a file.
            let path = snapshot.join(&file.path);
            sizes.insert(fs::canonicalize(&path).unwrap_or(path), file.size);
        }
        let weights = files.into_iter().map(|file| file.path);
        revisions.push(CachedRevision {
            refs: refs.get(&commit).into_iter().flatten().cloned().collect(),
            commit,
            weights: weights
                .filter(|path| WeightsFormat::of(path).is_some())
                .collect(),
        });
    }
    revisions.sort_by(|a, b| a.commit.cmp(&b.commit));
    Ok(CachedModel {
        repo_id,
        revisions,
        bytes: sizes.values().sum(),
    })
}

/// Returns the branches and tags of every commit.
fn refs(folder: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut refs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in folder::list(folder, folder::CACHE_DEPTH).unwrap_or_default() {
        if let Ok(commit) = read_small_text(&folder.join(&file.path), FileKind::Line) {
            refs.entry(commit.trim().into())
                .or_default()
                .insert(file.path);
        }
    }
    refs
}

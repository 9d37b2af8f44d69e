//! Facts about a repository that are known before its files are used.

use std::collections::BTreeSet;

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepoFile {
    /// The path in the repository, with `/` between folders.
    pub path: String,
    /// The size in bytes.
    pub size: u64,
    /// Git's hash of the file, or of the pointer to a large file; empty in a folder.
    pub(crate) id: String,
    /// Whether the hub stores the content outside git (LFS), so that `id` is a pointer's hash.
    pub(crate) is_large: bool,
}

/// The contents of a repository at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepoInfo {
    /// The commit's hash; `None` for a folder.
    pub commit: Option<String>,
    /// Whether the hub was not reached, so that only files of the cache are listed.
    pub from_cache: bool,
    /// Why the hub was not reached, such as `HF_HUB_OFFLINE forbids downloads`; `None` if it was.
    pub cache_reason: Option<String>,
    /// The files, sorted by path.
    pub files: Vec<RepoFile>,
    /// The element types of the safetensors files, as far as the hub knows them.
    pub(crate) dtypes: BTreeSet<String>,
}

//! Why a repository's files cannot be had.

use std::path::Path;

use wisp_weights::{SupportedEncoding, WeightError};

/// Why a repository's files cannot be had. Messages from servers are shown escaped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepoError {
    /// Occurs when there is neither a file nor a repository of a name.
    #[error("{name}: there is no such file or directory{}", if *.may_be_repo { "" } else { " (a hub repository is written org/name)" })]
    NotFound {
        /// The name.
        name: String,
        /// True if it could be a repository's name too.
        may_be_repo: bool,
    },
    /// Occurs when the hub has no such repository.
    #[error(
        "{repo}: there is no such file or directory here, and no such repository on {endpoint}"
    )]
    Missing {
        /// The repository.
        repo: String,
        /// The hub.
        endpoint: String,
    },
    /// Occurs when a repository has no such branch, tag or commit.
    #[error("{repo} has no revision {revision:?} (or is no repository of {endpoint})")]
    NoRevision {
        /// The repository.
        repo: String,
        /// The revision.
        revision: String,
        /// The hub.
        endpoint: String,
    },
    /// Occurs when a repository has not the file asked for.
    #[error("{repo} has no file {file:?}; it has {}", listed(.there_are))]
    NoFile {
        /// The repository.
        repo: String,
        /// The file.
        file: String,
        /// Its files with weights.
        there_are: Vec<String>,
    },
    /// Occurs when the authors want to know who uses a repository (status 401 or 403).
    #[error(
        "{repo} is gated: ask for access at {endpoint}/{repo}, and give a token that has it in HF_TOKEN (or by `hf auth login`)"
    )]
    Gated {
        /// The repository.
        repo: String,
        /// The hub.
        endpoint: String,
    },
    /// Occurs when the hub wants a token, or refuses the one given (status 401).
    #[error(
        "{repo}: {endpoint} answers 401 (not authorised): it is private, does not exist, or the token in HF_TOKEN is not valid"
    )]
    Unauthorised {
        /// The repository.
        repo: String,
        /// The hub.
        endpoint: String,
    },
    /// Occurs when a token does not suffice (status 403).
    #[error(
        "{repo}: {endpoint} answers 403 (forbidden){message}: the token in HF_TOKEN does not suffice"
    )]
    Forbidden {
        /// The repository.
        repo: String,
        /// The hub.
        endpoint: String,
        /// The hub's words, with a colon before them, or nothing.
        message: String,
    },
    /// Occurs when the hub was asked too often (status 429).
    #[error("{endpoint} answers 429 (too many requests): try again {}; with a token in HF_TOKEN more are allowed", when(.after_seconds))]
    RateLimited {
        /// The hub.
        endpoint: String,
        /// When to try again.
        after_seconds: Option<u64>,
    },
    /// Occurs when the hub fails or answers what cannot be understood.
    #[error("{repo}: {problem} (from {endpoint})")]
    Hub {
        /// The repository.
        repo: String,
        /// The hub.
        endpoint: String,
        /// What is wrong.
        problem: String,
    },
    /// Occurs when the hub cannot be reached.
    #[error(
        "{repo} is no file or directory here, and {endpoint} cannot be asked for it: {problem}"
    )]
    Unreachable {
        /// The repository.
        repo: String,
        /// The hub.
        endpoint: String,
        /// Why.
        problem: String,
    },
    /// Occurs when nothing comes any more.
    #[error(
        "{repo}: nothing has come from {endpoint} for {seconds} s (HF_HUB_DOWNLOAD_TIMEOUT); what was downloaded is kept: try again"
    )]
    Stalled {
        /// The repository.
        repo: String,
        /// The hub.
        endpoint: String,
        /// How long.
        seconds: u64,
    },
    /// Occurs when a download ends early or runs over, again and again.
    #[error("{repo}: {file} should have {expected} bytes, but {got} came{problem}")]
    Size {
        /// The repository.
        repo: String,
        /// The file.
        file: String,
        /// Its size, as the hub says.
        expected: u64,
        /// What came.
        got: u64,
        /// Why it ended, with a colon before it, or nothing.
        problem: String,
    },
    /// Occurs when what came is not what the hub says the file is.
    #[error(
        "{repo}: {file} was damaged on its way: its hash is {got}, but should be {expected}; nothing of it is kept, try again"
    )]
    Hash {
        /// The repository.
        repo: String,
        /// The file.
        file: String,
        /// Its hash, as the hub says.
        expected: String,
        /// That of what came.
        got: String,
    },
    /// Occurs when the hub does not tell what a file's hash should be.
    #[error(
        "{repo}: {file} is here whole, but the hub does not tell its hash ({problem}); it is kept: try again, or with --force-download if it may be damaged"
    )]
    Unchecked {
        /// The repository.
        repo: String,
        /// The file.
        file: String,
        /// Why the hub does not tell.
        problem: String,
    },
    /// Occurs in offline mode when the cache has not what is needed.
    #[error("{repo}: {what} is not in the cache ({cache}), and HF_HUB_OFFLINE forbids downloads")]
    Offline {
        /// The repository.
        repo: String,
        /// What is missing.
        what: String,
        /// The cache.
        cache: String,
    },
    /// Occurs when a hub names a file that would be written outside the cache.
    #[error("{repo} has a file of the name {file:?}, which is refused")]
    UnsafeName {
        /// The repository.
        repo: String,
        /// The name.
        file: String,
    },
    /// Occurs when a repository has no weights.
    #[error("{repo} has no weights: no .safetensors, .gguf or .bin file")]
    NoWeights {
        /// The repository.
        repo: String,
    },
    /// Occurs when a repository has no weights in an encoding.
    #[error("{repo} has no weights in {wanted}; it has {}", listed(&.there_are.iter().map(ToString::to_string).collect::<Vec<_>>()))]
    NoEncoding {
        /// The repository.
        repo: String,
        /// The encoding.
        wanted: SupportedEncoding,
        /// What it has.
        there_are: Vec<SupportedEncoding>,
    },
    /// Occurs when a repository has several models.
    #[error("{repo} has several models: name one of them, as {repo}:FILE or {repo}:ENCODING; it has {}", listed(.files))]
    Ambiguous {
        /// The repository.
        repo: String,
        /// The files.
        files: Vec<String>,
    },
    /// Occurs when nothing tells a file's encoding.
    #[error("{repo}: nothing tells the encoding of {file}")]
    UnknownEncoding {
        /// The repository.
        repo: String,
        /// The file.
        file: String,
    },
    /// Occurs when the caller broke off.
    #[error("interrupted; what was downloaded is kept")]
    Interrupted,
    /// Occurs when the operating system refuses a file.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Occurs when a file cannot be read as weights.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// Occurs without the feature `hub`.
    #[error("{repo}: there is no such directory, and this build has no hub (the feature `hub`)")]
    NoHub {
        /// The repository.
        repo: String,
    },
    /// Occurs when a repository is used from a task of an async runtime, which must not block.
    #[error("repositories block: use them from a thread of their own, not from an async task")]
    InsideRuntime,
}

impl RepoError {
    pub(super) fn io(path: &Path, source: std::io::Error) -> RepoError {
        RepoError::Io {
            path: path.display().to_string(),
            source,
        }
    }
}

/// A list, shortened.
fn listed(names: &[String]) -> String {
    const MOST: usize = 12;
    let mut shown: Vec<String> = names
        .iter()
        .take(MOST)
        .map(|name| name.escape_debug().to_string())
        .collect();
    match names.len() {
        0 => return "none".into(),
        count if count > MOST => shown.push(format!("{} more", count - MOST)),
        _ => {}
    }
    shown.join(", ")
}

fn when(seconds: &Option<u64>) -> String {
    seconds.map_or("later".into(), |seconds| format!("in {seconds} s"))
}

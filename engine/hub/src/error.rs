//! The errors of repositories.

use std::path::Path;

use wisp_weights::{SupportedEncoding, WeightError};

/// Why a repository or one of its files cannot be used. Text that comes from a server is shown on
/// one line, without control characters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepoError {
    /// Occurs when a model is named by an empty text.
    #[error("the model's name is empty")]
    EmptyName,
    /// Occurs when a name is neither a path on this machine nor the name of a repository.
    #[error("{name}: no such file or directory{}", if *.may_be_repo { "" } else { " (a hub repository is named org/name, such as HuggingFaceTB/SmolLM2-135M-Instruct; https://huggingface.co/models finds them)" })]
    NotFound {
        /// The model's name or path, as the user gave it.
        name: String,
        /// Whether the name has the form of a repository's name.
        may_be_repo: bool,
    },
    /// Occurs when a name cannot be that of a repository or revision, such as one with `..` in it.
    #[error("{repo:?} at revision {revision:?} is not a valid name of a hub repository")]
    InvalidName {
        /// The repository's name, as the user gave it.
        repo: String,
        /// The requested branch, tag or commit.
        revision: String,
    },
    /// Occurs when the hub has no such repository (status 404).
    #[error(
        "{repo}: there is no such file or directory here, and no such repository on {endpoint}"
    )]
    RepoNotFound {
        /// The repository's name, `org/name`.
        repo: String,
        /// The hub's address.
        endpoint: String,
    },
    /// Occurs when a repository has no such branch, tag or commit (status 404).
    #[error("{endpoint} has no revision {revision:?} of {repo}, or no such repository")]
    RevisionNotFound {
        /// The repository's name, `org/name`.
        repo: String,
        /// The requested branch, tag or commit.
        revision: String,
        /// The hub's address.
        endpoint: String,
    },
    /// Occurs when a repository does not have the requested file.
    #[error("{repo} has no file {file:?}; its files with weights are: {}", list(.available))]
    FileNotFound {
        /// The repository's name, `org/name`, or the path of a folder.
        repo: String,
        /// The requested file.
        file: String,
        /// The repository's files with weights, as far as they are known.
        available: Vec<String>,
    },
    /// Occurs when the authors of a repository decide who may use it (status 401 or 403).
    #[error(
        "{repo} is gated: ask for access at {endpoint}/{repo}, then set HF_TOKEN to a token of that account (or run `hf auth login`)"
    )]
    Gated {
        /// The repository's name, `org/name`.
        repo: String,
        /// The hub's address.
        endpoint: String,
    },
    /// Occurs when the hub wants a token or rejects the one it gets (status 401).
    #[error(
        "{repo}: {endpoint} answers 401 (unauthorized): the repository is private or does not exist, or the token in HF_TOKEN is not valid"
    )]
    Unauthorized {
        /// The repository's name, `org/name`.
        repo: String,
        /// The hub's address.
        endpoint: String,
    },
    /// Occurs when the token does not give access (status 403).
    #[error(
        "{repo}: {endpoint} answers 403 (forbidden){message}: the token in HF_TOKEN does not give access to it"
    )]
    Forbidden {
        /// The repository's name, `org/name`.
        repo: String,
        /// The hub's address.
        endpoint: String,
        /// The hub's explanation after a colon, or nothing.
        message: String,
    },
    /// Occurs when the hub limits the number of requests (status 429).
    #[error("{endpoint} answers 429 (too many requests): try again {}; requests with a token (HF_TOKEN) have a higher limit", when(.after_seconds))]
    RateLimited {
        /// The hub's address.
        endpoint: String,
        /// The number of seconds after which the hub accepts requests again, if it says so.
        after_seconds: Option<u64>,
    },
    /// Occurs when the hub fails or its answer is malformed.
    #[error("{repo}: unexpected answer from {endpoint}: {problem}")]
    BadResponse {
        /// The repository's name, `org/name`.
        repo: String,
        /// The hub's address.
        endpoint: String,
        /// What is wrong with the answer.
        problem: String,
    },
    /// Occurs when no connection to the hub can be made.
    #[error(
        "{repo} is not a file or directory here, and {endpoint} cannot be reached: {problem}; check the network connection, the proxy (HTTPS_PROXY) and HF_ENDPOINT, or give the path of a .gguf file"
    )]
    Unreachable {
        /// The repository's name, `org/name`.
        repo: String,
        /// The hub's address.
        endpoint: String,
        /// The network's reason.
        problem: String,
    },
    /// Occurs when the hub stops sending.
    #[error(
        "{repo}: {endpoint} has sent nothing for {seconds} s (HF_HUB_DOWNLOAD_TIMEOUT sets this limit); the partial download is kept: try again to continue it"
    )]
    Stalled {
        /// The repository's name, `org/name`.
        repo: String,
        /// The hub's address.
        endpoint: String,
        /// The limit in seconds.
        seconds: u64,
    },
    /// Occurs when a transfer breaks after bytes have arrived, and cannot be continued for some minutes.
    #[error(
        "{repo}: the connection to {endpoint} broke, and {received} of {expected} bytes of {file} are kept: {problem}; try again to continue"
    )]
    Broken {
        /// The repository's name, `org/name`.
        repo: String,
        /// The hub's address.
        endpoint: String,
        /// The file's path in the repository.
        file: String,
        /// The bytes on this machine.
        received: u64,
        /// The file's size in bytes.
        expected: u64,
        /// Why the last attempt failed.
        problem: String,
    },
    /// Occurs when a download repeatedly ends too early or is too long.
    #[error("{repo}: {file} should have {expected} bytes, but {received} were received{problem}")]
    WrongSize {
        /// The repository's name, `org/name`.
        repo: String,
        /// The file's path in the repository.
        file: String,
        /// The size in bytes that the hub promises.
        expected: u64,
        /// The number of bytes received.
        received: u64,
        /// Why the transfer ended, after a colon, or nothing.
        problem: String,
    },
    /// Occurs when the downloaded bytes do not have the hash that the hub promises.
    #[error(
        "{repo}: {file} was damaged in transfer: its hash is {actual}, but should be {expected}; it was deleted: try again"
    )]
    HashMismatch {
        /// The repository's name, `org/name`.
        repo: String,
        /// The file's path in the repository.
        file: String,
        /// The hash that the hub promises.
        expected: String,
        /// The hash of the downloaded bytes.
        actual: String,
    },
    /// Occurs when the hub does not say which hash a file should have.
    #[error(
        "{repo}: {file} is downloaded, but cannot be checked, because the hub does not tell its hash ({problem}); it is kept: try again, or force a new download if it may be damaged"
    )]
    Unverified {
        /// The repository's name, `org/name`.
        repo: String,
        /// The file's path in the repository.
        file: String,
        /// Why the hash is not known.
        problem: String,
    },
    /// Occurs when the cache lacks what is asked for, and the hub cannot be reached or must not be.
    #[error("{repo}: {wanted} is not in the cache ({cache}), and {reason}{}", cached(.available))]
    NotCached {
        /// The repository's name, `org/name`.
        repo: String,
        /// What is missing, such as `the model`.
        wanted: String,
        /// The folder of the cache.
        cache: String,
        /// Why nothing is downloaded.
        reason: String,
        /// The repository's files with weights that are in the cache.
        available: Vec<String>,
    },
    /// Occurs when an environment variable has a value that cannot be used.
    #[error("{variable}: {problem}")]
    InvalidSetting {
        /// The name of the environment variable, such as `HF_ENDPOINT`.
        variable: &'static str,
        /// What is wrong with its value.
        problem: String,
    },
    /// Occurs when a hub lists a file whose name leads out of the cache.
    #[error("{repo}: the file name {file:?} is refused, because it leads out of the cache")]
    UnsafeFileName {
        /// The repository's name, `org/name`.
        repo: String,
        /// The file's path, as the hub lists it.
        file: String,
    },
    /// Occurs when a repository has no files with weights.
    #[error("{repo} has no weights: no .safetensors, .gguf or .bin file")]
    NoWeights {
        /// The repository's name, `org/name`, or the path of a folder.
        repo: String,
    },
    /// Occurs when a repository has no weights in the requested encoding.
    #[error("{repo} has no weights in {wanted}; it has {}", list(&.available.iter().map(ToString::to_string).collect::<Vec<_>>()))]
    NoEncoding {
        /// The repository's name, `org/name`, or the path of a folder.
        repo: String,
        /// The requested encoding.
        wanted: SupportedEncoding,
        /// The encodings in which the repository has weights.
        available: Vec<SupportedEncoding>,
    },
    /// Occurs when a folder itself has no weights, but folders in it have.
    #[error(
        "{folder} itself has no weights, but folders in it have: name one of {}",
        in_folder(folder, files)
    )]
    OnlyBelow {
        /// The path of the folder, without a slash at its end.
        folder: String,
        /// The files below it, by their paths in it.
        files: Vec<String>,
    },
    /// Occurs when a repository has several models and nothing says which one is meant.
    #[error("{repo} has several models: name one of them, as {repo}:FILE or {repo}:ENCODING; it has {}", list(.files))]
    Ambiguous {
        /// The repository's name, `org/name`, or the path of a folder.
        repo: String,
        /// The files of the models.
        files: Vec<String>,
    },
    /// Occurs when a folder has several models.
    #[error(
        "{folder} holds several models: name one of {}",
        in_folder(folder, files)
    )]
    SeveralInFolder {
        /// The path of the folder, without a slash at its end.
        folder: String,
        /// The names of the models' files.
        files: Vec<String>,
    },
    /// Occurs when neither a file's name nor its repository says which encoding it has.
    #[error("{repo}: the encoding of {file} is not known")]
    UnknownEncoding {
        /// The repository's name, `org/name`, or the path of a folder.
        repo: String,
        /// The file's path in the repository.
        file: String,
    },
    /// Occurs when the caller cancels a transfer.
    #[error("interrupted; what was downloaded is kept")]
    Interrupted,
    /// Occurs when the operating system reports an error about a file.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Occurs when a file cannot be read as weights.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// Occurs when a hub's repository is opened in a build without the feature `hub`.
    #[error("{repo}: no such directory; this build cannot download models (feature `hub`)")]
    HubDisabled {
        /// The repository's name, as the user gave it.
        repo: String,
    },
}

impl RepoError {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> RepoError {
        RepoError::Io {
            path: path.display().to_string(),
            source,
        }
    }
}

/// Returns a shortened list of the paths of files in a folder.
fn in_folder(folder: &str, files: &[String]) -> String {
    let paths: Vec<String> = files
        .iter()
        .map(|file| format!("{folder}/{file}"))
        .collect();
    list(&paths)
}

/// Returns a shortened, comma-separated list.
fn list(names: &[String]) -> String {
    const MAX_NAMES: usize = 12;
    let mut shown: Vec<String> = names
        .iter()
        .take(MAX_NAMES)
        .map(|name| name.escape_debug().to_string())
        .collect();
    match names.len() {
        0 => return "none".into(),
        count if count > MAX_NAMES => shown.push(format!("{} more", count - MAX_NAMES)),
        _ => {}
    }
    shown.join(", ")
}

/// Returns what the cache has of a repository, as the end of a message.
fn cached(files: &[String]) -> String {
    match files {
        [] => String::new(),
        files => format!("; the cache has {}", list(files)),
    }
}

fn when(seconds: &Option<u64>) -> String {
    seconds.map_or("later".into(), |seconds| format!("in {seconds} s"))
}

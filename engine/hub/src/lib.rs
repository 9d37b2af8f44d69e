//! Model repositories for Wisp: Hugging Face hubs and folders of this machine behind one type,
//! [`HuggingFaceRepo`]. The crate depends on the weight formats and on nothing else of Wisp; the
//! layers above it ask for files and never learn where they came from.
//!
//! A folder works in every build:
//!
//! ```
//! use wisp_hub::{HuggingFaceRepo, RepoType, ignore_progress};
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("config.json"), r#"{"torch_dtype": "bfloat16"}"#)?;
//! std::fs::write(folder.path().join("tiny-Q4_K_M.gguf"), b"")?;
//!
//! let name = folder.path().to_str().unwrap();
//! let repo = HuggingFaceRepo::open(name, "main", false, &ignore_progress)?;
//! assert_eq!(repo.repo_type(), RepoType::Local);
//! assert!(repo.file_exists("config.json"));
//!
//! let encodings = repo.supported_encodings(&ignore_progress)?;
//! assert_eq!(encodings[0].name(), "q4_k");
//! let path = repo.download("tiny-Q4_K_M.gguf", false, &ignore_progress)?;
//! assert!(path.exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Hubs
//!
//! The feature `hub` adds repositories of a hub, through Hugging Face's client `hf-hub`. They follow
//! the environment variables of Hugging Face's tools: `HF_ENDPOINT`, `HF_TOKEN`, `HF_TOKEN_PATH`,
//! `HF_HOME`, `HF_HUB_CACHE`, `HF_HUB_OFFLINE`, `HF_HUB_DOWNLOAD_TIMEOUT` and the proxy variables.
//! The cache is theirs too: what Python's `huggingface_hub` has downloaded is used from there, and the
//! other way round. Downloads are continued after an interruption, checked against the hub's
//! hashes, reported several times a second and cancelled when the caller says so ([`OnTransfer`]).
//!
//! The crate uses version 0.5 of `hf-hub`, over the HTTP client `ureq`. Version 1.0 requires Xet, a
//! protocol that fetches the chunks of large files in parallel, and an asynchronous HTTP stack with a
//! TLS library in C: 200 crates and a third of the whole build, for files that every hub also serves
//! over plain HTTP.
//!
//! Everything here blocks the calling thread. The crate is native only: a browser reads checkpoints
//! from its own storage.

#![cfg(not(target_arch = "wasm32"))]

mod encodings;
mod error;
mod folder;
mod info;
#[cfg(feature = "hub")]
mod online;
mod repo_type;
mod repository;
mod transfer;

pub use error::RepoError;
pub use info::{RepoFile, RepoInfo};
#[cfg(feature = "hub")]
pub use online::{CachedModel, CachedRevision, cache_directory, cached_models};
pub use repo_type::RepoType;
pub use repository::HuggingFaceRepo;
pub use transfer::{OnTransfer, Transfer, ignore_progress};

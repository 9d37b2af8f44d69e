//! Repositories of a hub, through Hugging Face's own client, `hf-hub`.
//!
//! The client knows the hub's addresses, the layout of the cache and how a token is sent. Its own
//! downloads can be neither cancelled nor checked, and trust a server that ignores the requested
//! range; so the files are transferred here and stored in the same cache. A file gets its final
//! name only when it is complete and its hash is right.

mod blobs;
mod cache;
mod download;
mod explain;
mod hash;
mod http;
mod listing;
mod open;
mod repo;
mod settings;
mod words;

pub use cache::{CachedModel, CachedRevision, cache_directory, cached_models};
pub(crate) use repo::OnlineRepo;

//! Reads small files within bounds, writes files whole or not at all, and keeps a bounded folder of files that can
//! be recreated.
//!
//! The crate depends on none of Wisp's other crates. It exists because every layer reads files that anyone may have
//! written ([`read_small`]), because several layers write files that another process may read at the same time
//! (compiled models, downloads, logits), and because the session and the device both keep what they compiled, in the
//! same folder and under the same rules: see [`DiskCache`]. It knows nothing of what it stores.
//!
//! A browser has no file system: on wasm32 the crate is empty.
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! let path = folder.path().join("settings.json");
//! wisp_files::write_atomic(&path, b"{}")?;
//! // A writer that fails leaves the old file.
//! let failed = wisp_files::write_atomic_with(&path, |temporary| {
//!     std::fs::write(temporary, b"{\"half")?;
//!     Err(std::io::Error::other("the disk is full"))
//! });
//! assert!(failed.is_err());
//! assert_eq!(std::fs::read(&path)?, b"{}");
//! # Ok(())
//! # }
//! ```

#![cfg(not(target_arch = "wasm32"))]

mod atomic;
mod bounded;
mod cache;
mod registry;
mod temporary;

pub use atomic::{replace_atomic, write_atomic, write_atomic_with};
pub use bounded::{FileKind, open_regular, read_small, read_small_text, read_stream_text};
pub use cache::{CacheEntry, DiskCache};
pub use registry::remove_temporaries;
pub use temporary::{
    TEMPORARY_PREFIX, TemporaryFolder, remove_abandoned, temporary_file, temporary_folder,
};

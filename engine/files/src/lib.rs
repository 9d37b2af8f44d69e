//! Files that are written whole or not at all, and a bounded folder of files that can be made again.

#![cfg(not(target_arch = "wasm32"))]

mod disk_cache;

pub use disk_cache::{CacheEntry, DiskCache, write_atomic, write_atomic_with};

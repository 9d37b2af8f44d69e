//! The metadata of a GGUF file.

mod keys;
mod rope;
mod spec;

pub use keys::GgufMetadata;

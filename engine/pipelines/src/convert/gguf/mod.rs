//! Conversion to GGUF.

mod encodings;
mod metadata;
mod spec;
mod spec_difference;
mod tensors;
mod write;

pub use write::to_gguf;

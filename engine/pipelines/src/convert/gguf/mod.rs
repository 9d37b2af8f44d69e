//! Conversion to GGUF.

mod encodings;
mod factors;
mod metadata;
mod parts;
mod spec;
mod spec_difference;
mod tensors;
mod write;

pub use write::to_gguf;

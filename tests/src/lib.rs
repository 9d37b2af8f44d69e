//! What the whole-program tests share.

pub mod gguf_writer;
pub mod quantize;
pub mod shared;

//! What the whole-program tests share.

pub mod gguf_writer;
pub mod kernels;
pub mod quantize;
pub mod shared;

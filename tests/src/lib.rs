//! Helpers that the tests of the engine and the program share.

pub mod asynchronous;
pub mod bundled;
pub mod cache;
pub mod cuda;
pub mod dequantize;
pub mod encoder;
pub mod fault;
pub mod gguf_writer;
pub mod goldens;
pub mod guarded;
pub mod hub;
pub mod in_process;
pub mod kernel_records;
pub mod kernel_rewritten;
pub mod kernels;
pub mod lora;
pub mod parallel;
pub mod program;
pub mod pytorch_writer;
pub mod quantize;
pub mod remote_file;
pub mod sample;
pub mod server;
pub mod shared;
pub mod slow_model;
pub mod small;
#[cfg(unix)]
pub mod terminal;
pub mod test_device;

/// The README's examples are doctests: `cargo test --doc -p wisp-tests`.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

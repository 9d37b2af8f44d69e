//! Language models on any GPU, in Rust, from one set of WGSL kernels.
//!
//! The layers, from the top; each knows only those below it:
//!
//! - [`pipelines`] turns a checkpoint into graphs and runs them for many users at once: tokenizer,
//!   chat template, architectures, KV cache, scheduler, sampling.
//! - [`session`] compiles graphs, gives them their weights and runs them.
//! - [`compiler`] makes a program of a graph, without weights and without a device.
//! - [`graph`] says what to compute, with ops of one's own if need be ([`extension`]); [`weights`] reads
//!   checkpoints.
//! - [`device`] runs kernels: on GPUs through wgpu, on the host CPU through Rust twins of them.
//!
//! # Generating text
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../native-demo/model/wisp-tiny.gguf");
//! use std::ops::ControlFlow;
//! use wisp_engine::device::{Device, DeviceSpec, Profile};
//! use wisp_engine::pipelines::text_generation::{GenerateOptions, TextGenerator};
//! use wisp_engine::pipelines::{ModelLimits, checkpoint::ModelFiles};
//! use wisp_engine::session::InferenceSession;
//!
//! let device = Device::open_blocking(&DeviceSpec::Auto, Profile::Full, 0)?;
//! let files = ModelFiles::open(path.as_ref())?;
//! let mut generator =
//!     TextGenerator::load_blocking(&InferenceSession::new(device), &files, ModelLimits::default())?;
//! let prompt = files.tokenizer.as_ref().unwrap().encode("Once upon a time", true, true)?;
//! let options = GenerateOptions { max_new_tokens: Some(16), ..Default::default() };
//! let answer = generator.generate_blocking(&files, &prompt, &options, |piece| {
//!     print!("{piece}");
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(answer.tokens.len(), 16);
//! # Ok(())
//! # }
//! ```
//!
//! Everything that waits is async, because a browser cannot block; native programs have blocking
//! twins of it.

pub mod compiler;
pub mod device;
mod digest;
#[cfg(not(target_arch = "wasm32"))]
pub mod disk_cache;
pub mod extension;
pub mod graph;
pub mod pipelines;
pub mod session;
pub mod weights;

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

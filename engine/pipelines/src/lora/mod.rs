//! Low-rank adapters (LoRA, Hu et al. 2021), after MAX's `max.pipelines.lora`: several at once, and
//! each request of a batch with its own or none.
//!
//! An adapter adds `scale * B A` to the weights of some projections. Loaded adapters are in buffers
//! of the decoder's program, padded with zeros to one rank. A sequence names its adapter, and two
//! kernels compute `B (A x)` beside each projection. The weights of the base model stay as they are,
//! in whatever encoding.
//!
//! A model has buffers for adapters if [`max_num_loras`](crate::ModelLimits::max_num_loras) is not 0.
//! Adapters are then loaded and unloaded while requests run. One that is unloaded cannot be named by
//! new requests, but stays for those that run with it; its slot is free when the last of them ends.

mod adapter;
mod adapter_config;
mod error;
mod files;
mod manager;
mod modules;
mod pack;
mod plan;

pub use adapter::Adapter;
pub use error::{LoraError, LoraStatus};
pub use files::AdapterFiles;
pub use manager::LoraManager;

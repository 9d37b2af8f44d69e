//! NVIDIA's GPUs through CUDA: the kernels' WGSL, translated to CUDA C++ and compiled by NVRTC.
//!
//! Nothing is linked: the driver's library and NVRTC are found when a device is listed or opened. All commands of
//! a device go to one stream, which runs them in order.

mod backend;
mod compile;
mod device;
mod errors;
mod graph;
mod launch;
mod nvrtc;
mod objects;
mod offline;
mod open;
mod pinned;
mod staging;
mod timestamps;
mod waiter;

pub use offline::OfflineCompiler;
pub(crate) use open::{REMEDY, list, open};

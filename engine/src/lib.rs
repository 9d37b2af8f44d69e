//! Language models on any GPU.

pub mod compiler;
pub mod device;
pub mod graph;
pub mod pipelines;
pub mod session;
pub mod weights;

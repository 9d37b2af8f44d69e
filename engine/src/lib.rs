//! Language models on any GPU.

pub mod device;
pub mod weights;

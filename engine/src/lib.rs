//! Language models on any GPU.

pub mod weights;

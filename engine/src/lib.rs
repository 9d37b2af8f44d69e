//! Language models on any GPU.

pub mod pipelines;

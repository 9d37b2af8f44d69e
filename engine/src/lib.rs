//! Language models on any GPU.

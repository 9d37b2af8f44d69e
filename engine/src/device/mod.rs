//! Devices: buffers, kernels and submissions, one module a backend.

pub mod host;

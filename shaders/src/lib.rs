//! Wisp's WGSL kernels.

pub mod params;

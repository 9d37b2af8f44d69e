//! Wisp's WGSL kernels.

//! Rotary position embeddings: the scalings that extend the context, frequencies, and the table of
//! rotations that kernels read.

mod frequencies;
mod rotations;
mod scaling;

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use frequencies::frequencies;
pub(crate) use rotations::Rotations;
pub use scaling::RopeScaling;
pub(crate) use scaling::{longrope_attention_factor, yarn_attention_factor, yarn_scale};

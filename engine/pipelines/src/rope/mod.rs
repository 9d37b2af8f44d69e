//! Rotary position embeddings: their frequencies, scalings, and the table of rotations that kernels read.

mod frequencies;
mod scaling;

pub use frequencies::{Rotations, frequencies};
pub use scaling::{RopeScaling, longrope_attention_factor, yarn_attention_factor};

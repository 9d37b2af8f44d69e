//! What a session may ask of the compiler beyond the graph and the target.

use serde::{Deserialize, Serialize};

/// In what precision the partial sums of a product that a workgroup splits along its columns are kept.
///
/// MAX's `SplitKReductionPrecision`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SplitKReductionPrecision {
    /// In that of the sums themselves: `f32`.
    #[default]
    Accum,
    /// In that of half-precision outputs: `f16`, which takes half the workgroup memory. A partial sum
    /// is off by up to 2^-11 of itself; past 65504 it stays there.
    Output,
}

/// Choices of kernels and encodings; by default the best ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Switches {
    /// How split products are added up, where the target has such kernels: GPUs, for few tokens.
    pub split_k_reduction_precision: SplitKReductionPrecision,
    /// The sampler finds its top-k, up to 256, by taking the greatest k times, instead of by thresholds.
    pub plain_top_k: bool,
    /// Float weights of linear layers become 8-bit floats with one scale a tensor while they are
    /// loaded, where their rows are whole blocks of 32.
    pub per_tensor_fp8: bool,
}

impl Switches {
    /// True if a switch that a kernel waits for is on.
    pub(super) fn on(&self, name: &str) -> bool {
        match name {
            "half_sums" => self.split_k_reduction_precision == SplitKReductionPrecision::Output,
            "plain_top_k" => self.plain_top_k,
            _ => false,
        }
    }
}

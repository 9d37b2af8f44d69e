//! What a session may ask of the compiler beyond the graph and the target.

use serde::{Deserialize, Serialize};

/// The precision of the partial sums of a product that a workgroup splits along its columns: MAX's
/// `SplitKReductionPrecision`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SplitKReductionPrecision {
    /// That of the accumulators: `f32`.
    #[default]
    Accum,
    /// That of half-precision outputs: `f16`, which takes half the workgroup memory. A partial sum is off by
    /// up to 2^-11 of itself, and is capped at 65504.
    Output,
}

/// Choices of kernels and encodings. The default is the best one for speed and exactness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Switches {
    /// How split products are added up, where the target has kernels that split them: GPUs, for few tokens.
    pub split_k_reduction_precision: SplitKReductionPrecision,
    /// Whether the sampler finds its top-k, up to 256, by taking the largest k times, instead of by
    /// thresholds.
    pub plain_top_k: bool,
    /// Whether float weights of linear layers become 8-bit floats with one scale a tensor while they are
    /// loaded, where their rows are whole blocks of 32.
    pub per_tensor_fp8: bool,
}

impl Switches {
    /// True if the switch that a kernel waits for is on.
    pub(crate) fn on(&self, name: &str) -> bool {
        match name {
            "f16_partials" => self.split_k_reduction_precision == SplitKReductionPrecision::Output,
            "plain_top_k" => self.plain_top_k,
            _ => false,
        }
    }
}

//! Options of a session for the compiler, beyond the graph and the target.

use serde::{Deserialize, Serialize};
use wisp_types::choices;

choices! {
    /// The precision of products, in which nearly all of a model's work is, and of attention on matrix units.
    ///
    /// A precision other than `Exact` lets programs use kernels that are faster and less accurate; where a
    /// target has none, they use the exact ones. Sums and everything between products are f32 in each precision.
    #[derive(Default)]
    Precision, "precision" {
        /// Products as accurate as in f32: every device computes the same tokens from a KV cache in single precision.
        #[default]
        Exact = "exact",
        /// Products of many tokens in half precision, on GPUs that have it. The normalised error of a product,
        /// `‖a − b‖ / ‖b‖`, is below `1e-3 * (1 + 16 / n)` over its `n` results; twice that for gated products. Attention
        /// of many tokens is in half precision, with an error below 1e-3, where a tuning chooses matrix units for it.
        F16 = "f16",
        /// Products of quantised weights with activations that are rounded to 8 bits, in blocks of 32 with a scale.
        /// All devices make the same blocks of the same numbers. What they compute in `f32` differs by rounding, which
        /// may move a number to the next step, so that the logits of two devices may differ by the error of this
        /// precision, about a percent. Weights without a kernel for it, such as floats, are multiplied exactly.
        Int8 = "int8",
    }
}

/// The precision of partial sums when a workgroup splits a product along its columns (split-K). Named
/// after MAX's `SplitKReductionPrecision`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SplitKReductionPrecision {
    /// The accumulators' precision, `f32`.
    #[default]
    Accum,
    /// The precision of half-precision outputs, `f16`, which halves the workgroup memory. A partial
    /// sum is off by up to 2^-11 of itself and is clamped to ±65504. Kernels for CUDA's tensor cores add in `f32` nevertheless.
    Output,
}

/// Choices of kernels and encodings. The default gives the best speed and exactness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Switches {
    /// The precision of products.
    pub precision: Precision,
    /// The precision of split-K partial sums, on targets whose kernels split products: GPUs, for few
    /// tokens.
    pub split_k_reduction_precision: SplitKReductionPrecision,
    /// Whether the sampler finds its top-k, for k up to 256, by taking the largest element k times
    /// instead of by thresholds.
    pub plain_top_k: bool,
    /// Whether float weights of linear layers are converted to 8-bit floats with one scale per tensor
    /// while they are loaded. Applies to weights whose rows are whole blocks of 32.
    pub per_tensor_fp8: bool,
}

impl Switches {
    /// Returns whether the switch that a kernel depends on is on.
    pub(crate) fn on(&self, name: &str) -> bool {
        match name {
            "f16_partials" => self.split_k_reduction_precision == SplitKReductionPrecision::Output,
            "plain_top_k" => self.plain_top_k,
            // The kernels of a precision are behind a switch of its name.
            _ => name == self.precision.name(),
        }
    }
}

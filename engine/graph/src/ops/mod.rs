//! The ops of a graph, one file each: what an op computes, the shapes of its operands and results, the
//! method of [`Graph`](crate::Graph) that adds it, and its lowering to kernel calls.
//!
//! Each op is a struct (or, where an op is a family of functions, an enum) with the op's settings. [`Op`]
//! has a variant for each; [`Graph::add`](crate::Graph::add) takes either. Operands are listed in the
//! order in which `add` takes them. "Broadcast" means as in NumPy: shapes are aligned at the last
//! dimension, and dimensions that are missing or of size 1 repeat.

mod argmax;
mod attention;
mod binary;
mod cast;
mod causal_conv;
mod clamped_swiglu;
mod combine_experts;
mod concat;
mod conv2d;
mod custom;
mod embed;
mod gated;
mod gated_delta_rule;
mod gather;
mod kv_write;
mod linear;
mod linear_experts;
mod lora;
mod mamba2_scan;
mod map;
mod matmul;
mod norm;
pub(crate) mod operands;
mod permute;
mod print;
mod reduce;
mod rope;
mod route;
mod sample;
mod scaled_add;
mod scatter;
mod select;
mod slice;
mod slice_like;
mod softmax;
mod top_k;
mod unary;

pub use argmax::Argmax;
pub use attention::AttentionSpec;
pub use binary::Binary;
pub use cast::Cast;
pub use causal_conv::CausalConv;
pub use clamped_swiglu::ClampedSwiglu;
pub use combine_experts::CombineExperts;
pub use concat::Concat;
pub use conv2d::ConvSpec;
pub use custom::Custom;
pub use embed::Embed;
pub use gated::Gated;
pub use gated_delta_rule::{GatedDeltaRule, serial_recurrence_tokens};
pub use gather::Gather;
pub use kv_write::{KvWrite, PagedCache};
pub use linear::Linear;
pub use linear_experts::LinearExperts;
pub use lora::{Lora, LoraOperands};
pub use mamba2_scan::Mamba2Scan;
pub use map::{Activation, Map};
pub use matmul::MatMul;
pub use norm::{NormKind, NormSpec};
pub use permute::{Axes, Permute};
pub use print::Print;
pub use reduce::{Reduce, Reduction};
pub use rope::{HeadSpec, RopeSpec};
pub use route::Route;
pub use sample::{Sample, SampleBuffers};
pub use scaled_add::ScaledAdd;
pub use scatter::Scatter;
pub use select::Select;
pub use slice::Slice;
pub use slice_like::SliceLike;
pub use softmax::Softmax;
pub use top_k::TopK;
pub use unary::Unary;

/// Lowerings that ops share with the compiler's fused steps. Unstable, as [`lowering`](crate::lowering).
#[doc(hidden)]
pub mod lowerings {
    pub use super::{
        attention::SPLIT_HEADS,
        gated::{GatedOperands, GatedProduct, lower_gated, lower_product_gate},
        linear::{LinearPart, lower_linear_stack},
        lora::{LoraProducts, lower_lora},
        norm::{NormOperands, lower_norm},
    };
}

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{
    error::OpProblem,
    lowering::{LoweringError, NodeValues, OpLowering},
    value::{TensorType, Value},
};

/// Turns of loops, nested ones counted each time, that an invocation of a kernel for software adapters may have: llvmpipe
/// ends its loops after 65,535 in all, without an error.
const LOOP_TURNS: u64 = 65_000;

/// The types of an op's results.
pub(crate) type Inferred = Result<Vec<TensorType>, OpProblem>;

/// What every op defines.
pub(crate) trait OpRules {
    /// Returns the op's name, in lower case: it appears in messages and profiles, and a custom op of the
    /// same name takes the op's place.
    fn name(&self) -> &'static str;

    /// The shape rule: returns the types of the results, or why the operands do not fit.
    fn infer(&self, operands: &[&Value]) -> Inferred;

    /// Returns which of so many operands the op overwrites, besides buffers.
    fn overwrites(&self, _operands: usize) -> Range<usize> {
        0..0
    }

    /// Lowers a node of the op, whose operands fit it, to kernel calls.
    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError>;
}

/// What a node computes: a variant for each op, with the op's settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Op {
    /// Index of the largest element of each row.
    Argmax(Argmax),
    /// Attention over a paged KV cache.
    Attention(AttentionSpec),
    /// A function of two tensors' elements, with broadcasting.
    Binary(Binary),
    /// Conversion of elements to another type.
    Cast(Cast),
    /// Causal depthwise convolution over the sequences of a ragged batch.
    CausalConv(CausalConv),
    /// A product with a gate, both limited.
    ClampedSwiglu(ClampedSwiglu),
    /// Weighted sum of the outputs of a token's experts.
    CombineExperts(CombineExperts),
    /// Tensors one after the other along a dimension.
    Concat(Concat),
    /// Two-dimensional convolution.
    Conv2d(ConvSpec),
    /// A custom op.
    Custom(Custom),
    /// Rows of a table, by their indices.
    Embed(Embed),
    /// An activation times another tensor: `activation(gate) * up`.
    Gated(Gated),
    /// The recurrence of a gated delta net over the sequences of a ragged batch.
    GatedDeltaRule(GatedDeltaRule),
    /// Slices along a dimension, by their indices.
    Gather(Gather),
    /// Writes keys and values into a paged KV cache.
    KvWrite(KvWrite),
    /// Product with a transposed weight, in the encoding that it is stored in.
    Linear(Linear),
    /// [`Linear`](Self::Linear) with the weight of each token's experts.
    LinearExperts(LinearExperts),
    /// Adds low-rank adapters' contributions to linear layers.
    Lora(Lora),
    /// The recurrence of Mamba 2 over the sequences of a ragged batch.
    Mamba2Scan(Mamba2Scan),
    /// A function of each element with a parameter, or an activation.
    Map(Map),
    /// Product of matrices that are values.
    MatMul(MatMul),
    /// Layer norm or RMS norm of each row.
    Norm(NormSpec),
    /// Dimensions in another order.
    Permute(Permute),
    /// Shows a value after each run.
    Print(Print),
    /// Sum, mean, maximum or minimum along a dimension.
    Reduce(Reduce),
    /// Rotary position embedding in place, with angles from a table.
    Rope(RopeSpec),
    /// Selection of each token's experts.
    Route(Route),
    /// Draws a token for each row of logits.
    Sample(Sample),
    /// `a + scale * b`.
    ScaledAdd(ScaledAdd),
    /// Replaces slices along a dimension, or adds to them.
    Scatter(Scatter),
    /// Elements of one tensor or another, by a condition.
    Select(Select),
    /// Every n-th slice along a dimension.
    Slice(Slice),
    /// The first slices along a dimension, as many as another value has.
    SliceLike(SliceLike),
    /// Softmax of each row.
    Softmax(Softmax),
    /// The largest elements of each row.
    TopK(TopK),
    /// A function of each element.
    Unary(Unary),
}

impl Op {
    fn rules(&self) -> &dyn OpRules {
        match self {
            Op::Argmax(op) => op,
            Op::Attention(op) => op,
            Op::Binary(op) => op,
            Op::Cast(op) => op,
            Op::CausalConv(op) => op,
            Op::ClampedSwiglu(op) => op,
            Op::CombineExperts(op) => op,
            Op::Concat(op) => op,
            Op::Conv2d(op) => op,
            Op::Custom(op) => op,
            Op::Embed(op) => op,
            Op::Gated(op) => op,
            Op::GatedDeltaRule(op) => op,
            Op::Gather(op) => op,
            Op::KvWrite(op) => op,
            Op::Linear(op) => op,
            Op::LinearExperts(op) => op,
            Op::Lora(op) => op,
            Op::Mamba2Scan(op) => op,
            Op::Map(op) => op,
            Op::MatMul(op) => op,
            Op::Norm(op) => op,
            Op::Permute(op) => op,
            Op::Print(op) => op,
            Op::Reduce(op) => op,
            Op::Rope(op) => op,
            Op::Route(op) => op,
            Op::Sample(op) => op,
            Op::ScaledAdd(op) => op,
            Op::Scatter(op) => op,
            Op::Select(op) => op,
            Op::Slice(op) => op,
            Op::SliceLike(op) => op,
            Op::Softmax(op) => op,
            Op::TopK(op) => op,
            Op::Unary(op) => op,
        }
    }

    /// Returns the op's name, in lower case, such as `linear` or `reduce_sum`.
    ///
    /// It appears in messages and profiles, and a [custom op](crate::extension) of the same name can
    /// take the op's place.
    pub fn name(&self) -> &'static str {
        self.rules().name()
    }

    /// Returns which of so many operands the op overwrites, besides buffers. These must be results that
    /// nothing reads afterwards.
    #[doc(hidden)]
    pub fn overwrites(&self, operands: usize) -> Range<usize> {
        self.rules().overwrites(operands)
    }

    /// Returns the types of the results for operands of these types.
    pub(crate) fn infer(&self, operands: &[&Value]) -> Inferred {
        let mut all = operands.iter();
        all.try_for_each(|operand| operands::expect_known_size(operand))?;
        let results = self.rules().infer(operands)?;
        operands::expect_distinct(&operands[self.overwrites(operands.len())])?;
        Ok(results)
    }

    /// Lowers a node of this op to kernel calls; see [`lowering`](crate::lowering).
    ///
    /// # Errors
    ///
    /// If the target cannot run the op.
    #[doc(hidden)]
    pub fn lower(
        &self,
        node: NodeValues<'_>,
        op: &mut OpLowering<'_>,
    ) -> Result<(), LoweringError> {
        self.rules().lower(node, op)
    }
}

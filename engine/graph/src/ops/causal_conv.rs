//! `causal_conv` and `gated_causal_conv`: causal depthwise convolution over the sequences of a batch.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::CausalConvParams;
use wisp_types::{DType, Shape};

use super::{
    Inferred, Op, OpRules,
    operands::{expect, expect_buffer, expect_fixed, expect_index, expect_spans, expect_width},
};
use crate::{
    error::OpProblem,
    lowering::{LoweringError, NodeValues, OpLowering, Size, params},
    runtime_fields,
    value::{TensorType, Value},
};

/// Causal depthwise convolution: each channel of a token is a weighted sum of that channel of the last
/// `width` tokens of its sequence, its own included. Tokens before the batch's come from a state.
///
/// Operands: `x f32 [tokens, channels]`, or `[tokens, 3 * channels]` if gated; `weight f32 [channels,
/// width]`; `index u32 [tokens, 2]`, each token's sequence and position; `spans u32 [batch, 4]`, for each
/// sequence the index of its first token, its number of tokens (0 if it takes no part), the row of the
/// state that it continues ([`NO_STATE`](wisp_shaders::params::NO_STATE) if it begins), and the row that its
/// new state is written to; `state`, a buffer `f32 [rows, width - 1, channels]`; optionally `bias f32
/// [channels]`. Result: `f32 [tokens, channels]`; the op also writes the state. It is called `causal_conv`
/// or `gated_causal_conv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CausalConv {
    /// True if a token of `x` is a gate, a second gate and a value: `gate * value` is convolved, and the
    /// second gate multiplies the result (LFM2).
    pub gated: bool,
    /// True if SiLU is applied to the sum.
    pub silu: bool,
}

impl From<CausalConv> for Op {
    fn from(op: CausalConv) -> Op {
        Op::CausalConv(op)
    }
}

impl OpRules for CausalConv {
    fn name(&self) -> &'static str {
        match self.gated {
            true => "gated_causal_conv",
            false => "causal_conv",
        }
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let (x, weight, index, spans, state, bias) = match *operands {
            [x, weight, index, spans, state] => (x, weight, index, spans, state, None),
            [x, weight, index, spans, state, bias] => (x, weight, index, spans, state, Some(bias)),
            _ => {
                let expected = "x, weight, index, spans, state and optionally bias";
                return Err(OpProblem::operand_count(expected, operands.len()));
            }
        };
        expect(x, "x", DType::F32, 2)?;
        expect(weight, "the weight", DType::F32, 2)?;
        let [channels, width] = [
            expect_fixed(&weight.shape.0[0], "the number of channels")?,
            expect_fixed(&weight.shape.0[1], "the filters' width")?,
        ];
        if width < 2 || channels == 0 {
            return Err(OpProblem::Settings(format!(
                "the weight {} must have channels and a width of at least 2",
                weight.shape
            )));
        }
        let parts = if self.gated { 3 } else { 1 };
        expect_width(x, "x", channels.saturating_mul(parts))?;
        expect_index(index, x)?;
        expect_spans(spans)?;
        expect(state, "the state", DType::F32, 3)?;
        expect_buffer(state, "the state")?;
        expect_width(state, "the state", channels)?;
        if expect_fixed(&state.shape.0[1], "the state's tokens")? != width - 1 {
            return Err(OpProblem::Mismatch(format!(
                "the state {} must hold {} tokens for filters of width {width}",
                state.shape,
                width - 1
            )));
        }
        if let Some(bias) = bias {
            expect(bias, "the bias", DType::F32, 1)?;
            expect_width(bias, "the bias", channels)?;
        }
        let tokens = x.shape.0[0].clone();
        Ok(vec![TensorType::f32(Shape(vec![tokens, channels.into()]))])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let [x, weight, index, spans, state] = [0, 1, 2, 3, 4].map(|at| node.inputs[at]);
        let bias = node.inputs.get(5).copied();
        let [tokens, batch] = [x, spans].map(|id| op.rows(id));
        let channels = op.fixed_dim(weight, 0, "the number of channels")?;
        let fixed = CausalConvParams {
            channels,
            width: op.fixed_dim(weight, 1, "the filters' width")?,
            has_bias: bias.is_some().into(),
            silu: self.silu.into(),
            ..Default::default()
        };
        // The kernel binds a bias in any case; it does not read the weight as one.
        let mut bindings =
            op.operands(&[x, weight, bias.unwrap_or(weight), index, spans, state])?;
        bindings.push(op.result(node.outputs[0]));
        let grid = [Size::fixed(channels.into()), tokens.clone()];
        let params = params(
            &fixed,
            runtime_fields!(CausalConvParams, tokens = tokens, batch = batch),
        );
        op.call(op.op(), grid, params, bindings)
    }
}

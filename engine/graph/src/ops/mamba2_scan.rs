//! `mamba2_scan`: the recurrence of Mamba 2 over the sequences of a batch.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::LinearRecurrenceParams;
use wisp_types::{DType, Shape};

use super::{
    Inferred, Op, OpRules,
    gated_delta_rule::{MAX_K_DIM, RecurrenceOperands, expect_matrices, lower_recurrence},
    operands::{expect, expect_same_rows, expect_spans, expect_width},
};
use crate::{
    error::OpProblem,
    lowering::{LoweringError, NodeValues, OpLowering},
    value::{TensorType, Value},
};

/// The recurrence of Mamba 2 (Dao and Gu 2024, "Transformers are SSMs"): each head of a sequence has a
/// matrix of `state_dim` rows and `head_dim` columns. A token decays it, adds its input to it, and reads it.
///
/// Operands: `xbc f32 [tokens, heads * head_dim + 2 * groups * state_dim]`, inputs, where they are added and
/// how they are read; `steps f32 [tokens, heads]`, before their bias and softplus; `a_log`, `step_bias` and
/// `d`, `f32 [heads]`, the logarithm of the decay's rate, the bias of the steps, and the factor on inputs
/// that are added to the result; `spans u32 [batch, 4]` as in [`CausalConv`](super::CausalConv); `state`, a
/// buffer `f32 [rows, heads * state_dim, head_dim]`. Result: `f32 [tokens, heads * head_dim]`; the op also
/// writes the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mamba2Scan {
    /// Groups of heads that are added and read alike.
    pub groups: u32,
    /// Heads, a multiple of the groups.
    pub heads: u32,
    /// Rows of a head's matrix, at most 256.
    pub state_dim: u32,
    /// Elements of a head.
    pub head_dim: u32,
}

impl From<Mamba2Scan> for Op {
    fn from(op: Mamba2Scan) -> Op {
        Op::Mamba2Scan(op)
    }
}

impl OpRules for Mamba2Scan {
    fn name(&self) -> &'static str {
        "mamba2_scan"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let &[xbc, steps, a_log, step_bias, d, spans, state] = operands else {
            let expected = "xbc, steps, a_log, step_bias, d, spans and state";
            return Err(OpProblem::operand_count(expected, operands.len()));
        };
        let sizes = [self.groups, self.heads, self.state_dim, self.head_dim];
        let [groups, heads, state_dim, head_dim] = sizes.map(u64::from);
        if sizes.contains(&0) || !heads.is_multiple_of(groups) || self.state_dim > MAX_K_DIM {
            return Err(OpProblem::Settings(format!(
                "{heads} heads of {head_dim} elements need a divisor of groups of states of 1 to \
                 {MAX_K_DIM} rows, but there are {groups} of {state_dim}"
            )));
        }
        let width = heads * head_dim;
        expect(xbc, "xbc", DType::F32, 2)?;
        expect_width(xbc, "xbc", width + 2 * groups * state_dim)?;
        expect(steps, "the steps", DType::F32, 2)?;
        expect_width(steps, "the steps", heads)?;
        expect_same_rows(xbc, steps)?;
        for (operand, role) in [(a_log, "a_log"), (step_bias, "step_bias"), (d, "d")] {
            expect(operand, role, DType::F32, 1)?;
            expect_width(operand, role, heads)?;
        }
        expect_spans(spans)?;
        expect_matrices(state, [heads * state_dim, head_dim])?;
        let tokens = xbc.shape.0[0].clone();
        Ok(vec![TensorType::f32(Shape(vec![tokens, width.into()]))])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let [xbc, steps, a_log, step_bias, d, spans, state] =
            [0, 1, 2, 3, 4, 5, 6].map(|at| node.inputs[at]);
        let fixed = LinearRecurrenceParams {
            k_heads: self.groups,
            v_heads: self.heads,
            k_dim: self.state_dim,
            v_dim: self.head_dim,
            scale: 1.0,
            ..Default::default()
        };
        let operands = RecurrenceOperands {
            qkv: xbc,
            gates: steps,
            a_log,
            dt_bias: step_bias,
            spans,
            state,
            d: Some(d),
        };
        lower_recurrence(op, fixed, operands, node.outputs[0])
    }
}

//! `clamped_swiglu`: the gate of a feed-forward layer of gpt-oss.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::ClampedSwigluParams;
use wisp_types::DType;

use super::{Inferred, Op, OpRules, operands::expect_dtype};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// `(u + 1) * g * sigmoid(alpha * g)`, where `g = min(gate, limit)` and `u` is `up` limited to `-limit..=limit`
/// (OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card").
///
/// Operands: `gate`, `up`, both `f32` of the same shape. Result: of that shape.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClampedSwiglu {
    /// Factor on the gate in the sigmoid.
    pub alpha: f32,
    /// The largest gate, and the largest magnitude of `up`; not negative.
    pub limit: f32,
}

impl From<ClampedSwiglu> for Op {
    fn from(op: ClampedSwiglu) -> Op {
        Op::ClampedSwiglu(op)
    }
}

impl OpRules for ClampedSwiglu {
    fn name(&self) -> &'static str {
        "clamped_swiglu"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [gate, up] = operands else {
            return Err(OpProblem::operand_count("gate and up", operands.len()));
        };
        if gate.shape != up.shape {
            return Err(OpProblem::Mismatch(format!(
                "gate {} and up {} must have the same shape",
                gate.shape, up.shape
            )));
        }
        expect_dtype(gate, "the gate", DType::F32)?;
        expect_dtype(up, "up", DType::F32)?;
        if self.limit.is_nan() || self.limit < 0.0 {
            return Err(OpProblem::Settings(format!(
                "the limit must be at least 0, but is {}",
                self.limit
            )));
        }
        Ok(vec![TensorType::f32(gate.shape.clone())])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let fixed = ClampedSwigluParams {
            len: 0,
            alpha: self.alpha,
            limit: self.limit,
        };
        let len = op.elements(node.outputs[0]);
        let params = params(&fixed, runtime_fields!(ClampedSwigluParams, len = len));
        op.call_over_elements("clamped_swiglu", node, params)
    }
}

impl Graph {
    /// Multiplies a gate and `up` with their limits; see [`ClampedSwiglu`].
    ///
    /// # Errors
    ///
    /// If the operands are not `f32` of the same shape, or the limit is negative.
    pub fn clamped_swiglu(
        &mut self,
        gate: ValueId,
        up: ValueId,
        settings: ClampedSwiglu,
    ) -> Result<ValueId, GraphError> {
        self.add(settings, &[gate, up])
    }
}

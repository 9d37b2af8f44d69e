//! `gated`: the gate of a feed-forward layer.

use serde::{Deserialize, Serialize};
use wisp_types::DType;

use super::{Activation, Inferred, Op, OpRules, operands::expect_dtype};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    value::{TensorType, Value, ValueId},
};

/// `activation(gate) * up`, the gate of SwiGLU and its relatives (Shazeer 2020).
///
/// Operands: `gate`, `up`, both `f32 [.., cols]` of the same shape. Result: of that shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gated {
    /// The function of the gate.
    pub activation: Activation,
}

impl From<Gated> for Op {
    fn from(op: Gated) -> Op {
        Op::Gated(op)
    }
}

impl OpRules for Gated {
    fn name(&self) -> &'static str {
        "gated"
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
        Ok(vec![TensorType::f32(gate.shape.clone())])
    }
}

impl Graph {
    /// Returns `activation(gate) * up`.
    ///
    /// # Errors
    ///
    /// If the operands are not `f32` of the same shape.
    pub fn gated(
        &mut self,
        gate: ValueId,
        up: ValueId,
        activation: Activation,
    ) -> Result<ValueId, GraphError> {
        self.add(Gated { activation }, &[gate, up])
    }
}

//! `gated`: the gate of a feed-forward layer.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::GatedParams;
use wisp_types::DType;

use super::{
    Activation, Inferred, Op, OpRules,
    linear::{LinearPart, lower_gated_product, lower_linear_stack},
    operands::expect_dtype,
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, Size, params},
    runtime_fields,
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

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let operands = GatedOperands::Separate {
            gate: node.inputs[0],
            up: node.inputs[1],
        };
        lower_gated(*self, operands, node.outputs[0], op)
    }
}

/// A gate whose operands are linear layers of the same `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatedProduct {
    /// The layers' operand, `[.., cols]`.
    pub x: ValueId,
    /// The layer that goes through the activation, and the one that it is multiplied by.
    pub parts: [LinearPart; 2],
    /// The result of the first layer, whose memory holds those of both layers if they take a call of their own.
    pub stacked: ValueId,
    /// Which activation the first layer goes through.
    pub gated: Gated,
}

/// Lowers a gate and the linear layers before it: to one call where the target can bind both weights as one
/// matrix, else to the layers' calls and the gate's.
///
/// # Errors
///
/// If a weight is none, or the target has no kernel for its encoding.
pub fn lower_product_gate(
    product: GatedProduct,
    out: ValueId,
    op: &mut OpLowering<'_>,
) -> Result<(), LoweringError> {
    let GatedProduct {
        x,
        parts,
        stacked,
        gated,
    } = product;
    if lower_gated_product(x, &parts, gated.activation, out, op)? {
        return Ok(());
    }
    lower_linear_stack(x, &parts, stacked, op)?;
    lower_gated(gated, GatedOperands::Stacked(stacked), out, op)
}

/// Where the operands of a gate are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GatedOperands {
    /// Two values.
    Separate {
        /// What goes through the activation.
        gate: ValueId,
        /// What the activation is multiplied by.
        up: ValueId,
    },
    /// The first value's memory holds rows of both, the gate's columns before the others.
    Stacked(ValueId),
}

/// Lowers a gate.
///
/// # Errors
///
/// If the width is symbolic, or an operand does not exist.
pub fn lower_gated(
    gated: Gated,
    operands: GatedOperands,
    out: ValueId,
    op: &mut OpLowering<'_>,
) -> Result<(), LoweringError> {
    let (tokens, cols) = (op.rows(out), op.cols(out)?);
    let ([gate, up], stride, up_offset) = match operands {
        GatedOperands::Separate { gate, up } => ([gate, up], cols, 0),
        GatedOperands::Stacked(both) => ([both; 2], cols.saturating_mul(2), cols),
    };
    let fixed = GatedParams {
        tokens: 0,
        cols,
        gate_stride: stride,
        gate_offset: 0,
        up_stride: stride,
        up_offset,
        activation: gated.activation.code(),
    };
    let bindings = vec![op.operand(gate)?, op.operand(up)?, op.result(out)];
    let params = params(&fixed, runtime_fields!(GatedParams, tokens = tokens));
    let grid = [op.elements(out), Size::fixed(1)];
    op.call("gated", grid, params, bindings)
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

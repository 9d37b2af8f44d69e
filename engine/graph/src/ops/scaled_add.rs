//! `scaled_add`: a sum with a factor.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::{
    BinaryContiguousParams, CONTIGUOUS_ADD, CONTIGUOUS_MUL, CONTIGUOUS_SCALED_ADD,
};
use wisp_types::DType;

use super::{Inferred, Op, OpRules, operands::expect_dtype};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// `a + scale * b`: residual connections of models that scale them (Granite). With a norm after it, it is
/// one kernel call.
///
/// Operands: `a f32`, `b f32`, whose shape is that of `a` or of its last dimensions: it repeats over the
/// others. Result: of `a`'s shape.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaledAdd {
    /// Factor on `b`.
    pub scale: f32,
}

impl From<ScaledAdd> for Op {
    fn from(op: ScaledAdd) -> Op {
        Op::ScaledAdd(op)
    }
}

impl OpRules for ScaledAdd {
    fn name(&self) -> &'static str {
        "scaled_add"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [a, b] = operands else {
            return Err(OpProblem::operand_count("a and b", operands.len()));
        };
        expect_dtype(a, "a", DType::F32)?;
        expect_dtype(b, "b", DType::F32)?;
        if !a.shape.0.ends_with(&b.shape.0) {
            return Err(OpProblem::Mismatch(format!(
                "b {} must have the shape of a {} or of its last dimensions",
                b.shape, a.shape
            )));
        }
        Ok(vec![TensorType::f32(a.shape.clone())])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        lower_contiguous(node, op, Contiguous::ScaledAdd(self.scale))
    }
}

/// What kernel `binary_contiguous` computes of `a` and of `b`, which repeats over `a`.
pub(super) enum Contiguous {
    /// `a + b`.
    Add,
    /// `a * b`.
    Mul,
    /// `a + scale * b`, by the scale.
    ScaledAdd(f32),
}

/// Lowers an op whose second operand repeats over its first to kernel `binary_contiguous`, which needs no
/// strides.
pub(super) fn lower_contiguous(
    node: NodeValues<'_>,
    op: &mut OpLowering<'_>,
    function: Contiguous,
) -> Result<(), LoweringError> {
    let (code, scale) = match function {
        Contiguous::Add => (CONTIGUOUS_ADD, 1.0),
        Contiguous::Mul => (CONTIGUOUS_MUL, 1.0),
        Contiguous::ScaledAdd(scale) => (CONTIGUOUS_SCALED_ADD, scale),
    };
    let fixed = BinaryContiguousParams {
        kind: code,
        scale,
        ..Default::default()
    };
    let (len, b_len) = (op.elements(node.inputs[0]), op.elements(node.inputs[1]));
    let params = params(
        &fixed,
        runtime_fields!(BinaryContiguousParams, len = len, b_len = b_len),
    );
    op.call_over_elements("binary_contiguous", node, params)
}

impl Graph {
    /// Returns `a + scale * b`; `b` repeats over the outer dimensions of `a`.
    ///
    /// # Errors
    ///
    /// If the shapes do not fit, or an operand is not `f32`.
    pub fn scaled_add(
        &mut self,
        a: ValueId,
        b: ValueId,
        scale: f32,
    ) -> Result<ValueId, GraphError> {
        self.add(ScaledAdd { scale }, &[a, b])
    }
}

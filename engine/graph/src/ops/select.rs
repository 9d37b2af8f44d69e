//! `select`: elements of one tensor or another, by a condition.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::SelectParams;
use wisp_types::DType;

use super::{
    Inferred, Op, OpRules,
    operands::{broadcast, expect_dtype, expect_tensors},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// Elements of `a` where a condition is not 0, and of `b` elsewhere.
///
/// Operands: `condition u32`, `a`, `b`, the latter of one element type. Result: of their common shape; all
/// three are broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Select;

impl From<Select> for Op {
    fn from(op: Select) -> Op {
        Op::Select(op)
    }
}

impl OpRules for Select {
    fn name(&self) -> &'static str {
        "select"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [condition, a, b] = operands else {
            let expected = "condition, a and b";
            return Err(OpProblem::operand_count(expected, operands.len()));
        };
        expect_tensors(operands)?;
        expect_dtype(condition, "the condition", DType::U32)?;
        expect_dtype(b, "b", a.dtype)?;
        let shape = broadcast(&a.shape, &b.shape)?;
        Ok(vec![TensorType {
            dtype: a.dtype,
            shape: broadcast(&condition.shape, &shape)?,
        }])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let out = op.dims(node.outputs[0]);
        let strides = node.inputs.iter().map(|id| op.broadcast_strides(*id, out));
        let strides = strides.collect();
        let sizes = op.sizes(out);
        let (dims, strides) = op.merge(sizes, strides)?;
        let fixed = SelectParams {
            rank: dims.len() as u32,
            ..Default::default()
        };
        let params = params(
            &fixed,
            runtime_fields!(
                SelectParams,
                len = op.size(out),
                dims = dims,
                condition_strides = strides[0],
                a_strides = strides[1],
                b_strides = strides[2],
            ),
        );
        op.call_over_elements("select", node, params)
    }
}

impl Graph {
    /// Returns `a` where the condition is not 0, and `b` elsewhere; the shapes are broadcast.
    ///
    /// # Errors
    ///
    /// If the element types do not fit, or the shapes cannot be broadcast.
    pub fn select(
        &mut self,
        condition: ValueId,
        a: ValueId,
        b: ValueId,
    ) -> Result<ValueId, GraphError> {
        self.add(Select, &[condition, a, b])
    }
}

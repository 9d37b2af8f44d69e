//! `softmax` of each row.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::RowsParams;
use wisp_types::DType;

use super::{Inferred, Op, OpRules, operands::expect_rows};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, Size, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// The softmax of each row: `exp(x - max) / sum(exp(x - max))`.
///
/// Operands: `x f32 [.., cols]`. Result: of `x`'s shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Softmax;

impl From<Softmax> for Op {
    fn from(op: Softmax) -> Op {
        Op::Softmax(op)
    }
}

impl OpRules for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [x] = operands else {
            return Err(OpProblem::operand_count("x", operands.len()));
        };
        expect_rows(x, "x", DType::F32)?;
        Ok(vec![TensorType::f32(x.shape.clone())])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        lower_rows(node, op)
    }
}

/// Lowers an op whose kernel, called like the op, reads each row and writes one result for it.
pub(super) fn lower_rows(
    node: NodeValues<'_>,
    op: &mut OpLowering<'_>,
) -> Result<(), LoweringError> {
    let (x, out) = (node.inputs[0], node.outputs[0]);
    let (rows, cols) = (op.rows(x), op.last_dim(x));
    let params = params(
        &RowsParams::default(),
        runtime_fields!(RowsParams, rows = rows, cols = cols),
    );
    let bindings = vec![op.operand(x)?, op.result(out)];
    op.call(op.op(), [rows, Size::fixed(1)], params, bindings)
}

impl Graph {
    /// Applies a softmax along a dimension.
    ///
    /// # Errors
    ///
    /// If `x` has no such dimension, or is not `f32`.
    pub fn softmax(&mut self, x: ValueId, axis: u32) -> Result<ValueId, GraphError> {
        self.composed("softmax", &[x], |graph| {
            let last = graph.rank_with_axis("softmax", x, axis)? - 1;
            let axis = axis as usize;
            if axis == last {
                return graph.add(Softmax, &[x]);
            }
            let mut swapped: Vec<usize> = (0..=last).collect();
            swapped.swap(axis, last);
            let x = graph.permute(x, &swapped)?;
            let softmax = graph.add(Softmax, &[x])?;
            graph.permute(softmax, &swapped)
        })
    }
}

//! `concat`: tensors one after the other.

use serde::{Deserialize, Serialize};
use wisp_types::Dim;

use super::{
    Inferred, Op, OpRules,
    operands::{expect_axis, expect_dtype, expect_tensors, replace_axis},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, Size, StridedMemory},
    value::{TensorType, Value, ValueId},
};

/// Tensors one after the other along a dimension.
///
/// Operands: `x [.., n, ..]`, `y [.., m, ..]` and so on, of one element type and the same other
/// dimensions. Result: `[.., n + m + .., ..]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Concat {
    /// The dimension, counted from 0.
    pub axis: u32,
}

impl From<Concat> for Op {
    fn from(op: Concat) -> Op {
        Op::Concat(op)
    }
}

impl OpRules for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [first, rest @ ..] = operands else {
            return Err(OpProblem::operand_count("at least one operand", 0));
        };
        expect_tensors(operands)?;
        let axis = expect_axis(first, self.axis)?;
        let mut size = first.shape.0[axis].clone();
        for next in rest {
            expect_dtype(next, "every part", first.dtype)?;
            let same_rank = next.rank() == first.rank();
            if !same_rank
                || replace_axis(&next.shape, axis, &[]) != replace_axis(&first.shape, axis, &[])
            {
                return Err(OpProblem::Mismatch(format!(
                    "{} and {} may differ only in dimension {axis}",
                    first.shape, next.shape
                )));
            }
            let sum = size.checked_add(&next.shape.0[axis]);
            size = sum.ok_or_else(|| {
                OpProblem::Mismatch(format!(
                    "the sum of the sizes of dimension {axis} overflows"
                ))
            })?;
        }
        Ok(vec![TensorType {
            dtype: first.dtype,
            shape: replace_axis(&first.shape, axis, &[size]),
        }])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let axis = self.axis as usize;
        let parts = op.operands(node.inputs)?;
        let out = op.result(node.outputs[0]);
        let out_strides = op.strides(node.outputs[0]);
        let mut start = Dim::Fixed(0);
        for (id, part) in node.inputs.iter().zip(parts) {
            let dims = op.dims(*id);
            let from = StridedMemory {
                memory: part,
                offset: Size::fixed(0),
                strides: op.strides(*id),
            };
            let to = StridedMemory {
                memory: out,
                offset: op
                    .size(std::slice::from_ref(&start))
                    .times(&out_strides[axis]),
                strides: out_strides.clone(),
            };
            op.copy(dims, from, to)?;
            // This sum is at most the result's size, which did not overflow.
            start = start.checked_add(&dims[axis]).unwrap_or(start);
        }
        Ok(())
    }
}

impl Graph {
    /// Joins tensors along a dimension, whose size becomes the [sum](wisp_types::Dim::checked_add) of theirs.
    ///
    /// # Errors
    ///
    /// If the tensors differ in element type or in another dimension.
    pub fn concat(&mut self, parts: &[ValueId], axis: u32) -> Result<ValueId, GraphError> {
        self.add(Concat { axis }, parts)
    }
}

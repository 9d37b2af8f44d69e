//! `slice_like`: as many slices as another value has.

use serde::{Deserialize, Serialize};

use super::{
    Inferred, Op, OpRules,
    operands::{expect_axis, expect_tensors, replace_axis},
    slice::lower_slice,
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering},
    value::{TensorType, Value, ValueId},
};

/// The first slices along a dimension, as many as another value has in one of its own: the part of a table
/// that a text of any length needs. A run in which `x` has fewer is refused.
///
/// Operands: `x [.., n, ..]`, `like [.., m, ..]`, of which only the shape counts. Result: `[.., m, ..]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceLike {
    /// The dimension of `x`, counted from 0.
    pub axis: u32,
    /// The dimension of `like`.
    pub like_axis: u32,
}

impl From<SliceLike> for Op {
    fn from(op: SliceLike) -> Op {
        Op::SliceLike(op)
    }
}

impl OpRules for SliceLike {
    fn name(&self) -> &'static str {
        "slice_like"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [x, like] = operands else {
            return Err(OpProblem::operand_count("x and like", operands.len()));
        };
        expect_tensors(operands)?;
        let axis = expect_axis(x, self.axis)?;
        let like_axis = expect_axis(like, self.like_axis)?;
        let (size, len) = (&x.shape.0[axis], &like.shape.0[like_axis]);
        if let (Some(size), Some(len)) = (size.fixed(), len.fixed())
            && len > size
        {
            return Err(OpProblem::Mismatch(format!(
                "cannot take {len} slices of a dimension of {size}"
            )));
        }
        Ok(vec![TensorType {
            dtype: x.dtype,
            shape: replace_axis(&x.shape, axis, std::slice::from_ref(len)),
        }])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        lower_slice(node, op, (self.axis, 0, 1))
    }
}

impl Graph {
    /// Returns the first slices of `x` along a dimension, as many as `like` has along `like_axis`.
    ///
    /// # Errors
    ///
    /// If a value has no such dimension, or `x` has fewer slices. Where a size is symbolic, a run in which
    /// `x` has fewer is refused.
    pub fn slice_like(
        &mut self,
        x: ValueId,
        axis: u32,
        like: ValueId,
        like_axis: u32,
    ) -> Result<ValueId, GraphError> {
        self.add(SliceLike { axis, like_axis }, &[x, like])
    }
}

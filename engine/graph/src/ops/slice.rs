//! `slice`: a range along a dimension, with a step.

use serde::{Deserialize, Serialize};

use super::{
    Inferred, Op, OpRules,
    operands::{expect_axis, expect_tensors, replace_axis},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    value::{TensorType, Value, ValueId},
};

/// Every `step`-th slice along a dimension, `len` of them from `start` on. Where the dimension's size is
/// symbolic, a run in which it is too small is refused.
///
/// Operands: `x [.., n, ..]`. Result: `[.., len, ..]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// The dimension, counted from 0.
    pub axis: u32,
    /// Index of the first slice.
    pub start: u64,
    /// How many slices; at least 1.
    pub len: u64,
    /// From the index of one slice to that of the next; at least 1.
    pub step: u64,
}

impl From<Slice> for Op {
    fn from(op: Slice) -> Op {
        Op::Slice(op)
    }
}

impl OpRules for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [x] = operands else {
            return Err(OpProblem::operand_count("x", operands.len()));
        };
        expect_tensors(operands)?;
        let axis = expect_axis(x, self.axis)?;
        let Slice {
            start, len, step, ..
        } = *self;
        let size = &x.shape.0[axis];
        let last = len
            .checked_sub(1)
            .and_then(|steps| steps.checked_mul(step)?.checked_add(start));
        let limit = size.fixed().unwrap_or(u64::from(u32::MAX));
        if step == 0 || last.is_none_or(|last| last >= limit) {
            return Err(OpProblem::Settings(format!(
                "cannot take {len} slices from {start} in steps of {step} of a dimension of {size}"
            )));
        }
        Ok(vec![TensorType {
            dtype: x.dtype,
            shape: replace_axis(&x.shape, axis, &[len.into()]),
        }])
    }
}

impl Graph {
    /// Returns every `step`-th slice along a dimension, `len` of them from `start` on.
    ///
    /// # Errors
    ///
    /// If `x` has no such dimension, or the slices are not within it. Where its size is symbolic, a run in
    /// which it is too small is refused.
    pub fn slice(
        &mut self,
        x: ValueId,
        axis: u32,
        start: u64,
        len: u64,
        step: u64,
    ) -> Result<ValueId, GraphError> {
        let slice = Slice {
            axis,
            start,
            len,
            step,
        };
        self.add(slice, &[x])
    }
}

//! `slice`: a range along a dimension, with a step.

use serde::{Deserialize, Serialize};
use wisp_types::Dim;

use super::{
    Inferred, Op, OpRules,
    operands::{expect_axis, expect_tensors, replace_axis},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, Size},
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

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        lower_slice(node, op, (self.axis, self.start, self.step))
    }
}

/// Lowers a slice of the first operand along a dimension; the result says how many slices there are.
pub(super) fn lower_slice(
    node: NodeValues<'_>,
    op: &mut OpLowering<'_>,
    (axis, start, step): (u32, u64, u64),
) -> Result<(), LoweringError> {
    let (x, axis) = (node.inputs[0], axis as usize);
    let (size, len) = (&op.dims(x)[axis], &op.dims(node.outputs[0])[axis]);
    require_slices(op, x, [size, len], [start, step]);
    let mut strides = op.strides(x);
    let offset = strides[axis].times(&Size::fixed(start));
    strides[axis] = strides[axis].times(&Size::fixed(step));
    op.copy_to_result(x, offset, strides, node.outputs[0])
}

/// Makes a run check, where sizes are symbolic, that the slices are within `x`: `start + (len - 1) * step + 1
/// <= size`.
fn require_slices(
    op: &mut OpLowering<'_>,
    x: ValueId,
    [size, len]: [&Dim; 2],
    [start, step]: [u64; 2],
) {
    if size == len || (size.fixed().is_some() && len.fixed().is_some()) {
        return;
    }
    // As `start + len * step + 1 <= size + step`, because sums have no negative parts.
    let (mut needed, mut available) = (len.to_sum(), size.to_sum());
    for (_, times) in &mut needed.terms {
        *times = times.saturating_mul(step);
    }
    let steps = needed.constant.saturating_mul(step);
    needed.constant = steps.saturating_add(start).saturating_add(1);
    available.constant = available.constant.saturating_add(step);
    // The error message shows both sums: take away again what was added to both.
    let common = needed.constant.min(available.constant).min(step);
    needed.constant -= common;
    available.constant -= common;
    op.require(x, &needed, &available);
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

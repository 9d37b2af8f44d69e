//! `reduce_sum`, `reduce_mean`, `reduce_max`, `reduce_min`: reductions along a dimension.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::ReduceParams;
use wisp_types::{DType, Dim};

use super::{
    Inferred, Op, OpRules,
    operands::{expect_axis, expect_dtype, expect_tensors, replace_axis},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// A reduction of one dimension to a single number. The op is called after its function: `reduce_sum`.
///
/// Operands: `x f32 [.., n, ..]`. Result: `f32 [.., ..]`, without that dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reduce {
    /// The function that reduces the dimension: sum, mean, maximum or minimum.
    pub kind: Reduction,
    /// The dimension, counted from 0.
    pub axis: u32,
}

/// The function of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u32)]
pub enum Reduction {
    /// The sum of the elements.
    Sum = 0,
    /// The arithmetic mean.
    Mean = 1,
    /// The largest element.
    Max = 2,
    /// The smallest element.
    Min = 3,
}

impl Reduction {
    /// Returns the op's name, such as `reduce_sum`.
    pub fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "reduce_sum",
            Reduction::Mean => "reduce_mean",
            Reduction::Max => "reduce_max",
            Reduction::Min => "reduce_min",
        }
    }
}

impl From<Reduce> for Op {
    fn from(op: Reduce) -> Op {
        Op::Reduce(op)
    }
}

impl OpRules for Reduce {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [x] = operands else {
            return Err(OpProblem::operand_count("x", operands.len()));
        };
        expect_tensors(operands)?;
        expect_dtype(x, "x", DType::F32)?;
        let axis = expect_axis(x, self.axis)?;
        if x.shape.0[axis] == Dim::Fixed(0) {
            return Err(OpProblem::Settings(format!(
                "dimension {axis} of {} is empty: there is nothing to reduce",
                x.shape
            )));
        }
        Ok(vec![TensorType::f32(replace_axis(&x.shape, axis, &[]))])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let [outer, n, inner] = op.around_axis(node.inputs[0], self.axis);
        let fixed = ReduceParams {
            kind: self.kind as u32,
            ..Default::default()
        };
        let params = params(
            &fixed,
            runtime_fields!(ReduceParams, outer = outer, axis_size = n, inner = inner),
        );
        op.call_over_elements("reduce", node, params)
    }
}

impl Graph {
    /// Reduces a dimension to its sum, mean, maximum or minimum; the result lacks that dimension.
    ///
    /// # Errors
    ///
    /// If `x` has no such dimension, or is not `f32`.
    pub fn reduce(
        &mut self,
        kind: Reduction,
        x: ValueId,
        axis: u32,
    ) -> Result<ValueId, GraphError> {
        self.add(Reduce { kind, axis }, &[x])
    }
}

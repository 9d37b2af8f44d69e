//! `gather`: slices along a dimension, by their indices.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::GatherParams;
use wisp_types::{DType, Dim};

use super::{
    Inferred, Op, OpRules,
    operands::{expect_axis, expect_dtype, expect_rank_limit, expect_tensors, replace_axis},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// Slices along a dimension, in the order of some indices. An index beyond the dimension is an error on
/// the host; other devices take the last slice for it.
///
/// Operands: `x [.., n, ..]`, `indices u32 [..i]`. Result: `[.., ..i, ..]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gather {
    /// The dimension, counted from 0.
    pub axis: u32,
}

impl From<Gather> for Op {
    fn from(op: Gather) -> Op {
        Op::Gather(op)
    }
}

impl OpRules for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [x, indices] = operands else {
            return Err(OpProblem::operand_count("x and indices", operands.len()));
        };
        expect_tensors(operands)?;
        expect_dtype(indices, "the indices", DType::U32)?;
        let axis = expect_axis(x, self.axis)?;
        if x.shape.0[axis] == Dim::Fixed(0) {
            return Err(OpProblem::Settings(format!(
                "dimension {axis} of {} is empty: there is nothing to gather",
                x.shape
            )));
        }
        let shape = replace_axis(&x.shape, axis, &indices.shape.0);
        expect_rank_limit(&shape)?;
        Ok(vec![TensorType {
            dtype: x.dtype,
            shape,
        }])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let [outer, n, inner] = op.around_axis(node.inputs[0], self.axis);
        let count = op.elements(node.inputs[1]);
        let params = params(
            &GatherParams::default(),
            runtime_fields!(
                GatherParams,
                outer = outer,
                axis_size = n,
                inner = inner,
                index_count = count
            ),
        );
        op.call_over_elements("gather", node, params)
    }
}

impl Graph {
    /// Returns the slices of `x` along a dimension that the indices name; see [`Gather`].
    ///
    /// # Errors
    ///
    /// If `x` has no such dimension, or the indices are not `u32`.
    pub fn gather(
        &mut self,
        x: ValueId,
        indices: ValueId,
        axis: u32,
    ) -> Result<ValueId, GraphError> {
        self.add(Gather { axis }, &[x, indices])
    }
}

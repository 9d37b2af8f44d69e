//! `scatter`: replaces slices along a dimension, or adds to them.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::ScatterParams;
use wisp_types::DType;

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

/// A copy of `x` with updates in the slices along a dimension that some indices name. Of equal indices the
/// last one counts, or all are added. An index beyond the dimension has no effect.
///
/// Operands: `x f32 [.., n, ..]`, `indices u32 [count]`, `updates f32 [.., count, ..]`. Result: as `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scatter {
    /// The dimension, counted from 0.
    pub axis: u32,
    /// Whether the updates are added to the slices rather than replacing them.
    pub add: bool,
}

impl From<Scatter> for Op {
    fn from(op: Scatter) -> Op {
        Op::Scatter(op)
    }
}

impl OpRules for Scatter {
    fn name(&self) -> &'static str {
        "scatter"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [x, indices, updates] = operands else {
            let expected = "x, indices and updates";
            return Err(OpProblem::operand_count(expected, operands.len()));
        };
        expect_tensors(operands)?;
        expect_dtype(x, "x", DType::F32)?;
        expect_dtype(updates, "the updates", DType::F32)?;
        expect_dtype(indices, "the indices", DType::U32)?;
        let axis = expect_axis(x, self.axis)?;
        if indices.rank() != 1 {
            let actual = indices.shape.to_string();
            let expected = "a tensor of 1 dimension";
            return Err(OpProblem::operand("the indices", indices, expected, actual));
        }
        let expected = replace_axis(&x.shape, axis, &indices.shape.0);
        if updates.shape != expected {
            let actual = updates.shape.to_string();
            let expected = expected.to_string();
            return Err(OpProblem::operand("the updates", updates, expected, actual));
        }
        Ok(vec![TensorType::f32(x.shape.clone())])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let [outer, n, inner] = op.around_axis(node.inputs[0], self.axis);
        let count = op.elements(node.inputs[1]);
        let fixed = ScatterParams {
            accumulate: self.add.into(),
            ..Default::default()
        };
        let params = params(
            &fixed,
            runtime_fields!(
                ScatterParams,
                outer = outer,
                axis_size = n,
                inner = inner,
                index_count = count
            ),
        );
        op.call_over_elements("scatter", node, params)
    }
}

impl Graph {
    /// Returns `x` with updates in the slices along a dimension that the indices name, or with the updates
    /// added to them; see [`Scatter`].
    ///
    /// # Errors
    ///
    /// If the shapes do not fit, or the element types are not the op's.
    pub fn scatter(
        &mut self,
        x: ValueId,
        indices: ValueId,
        updates: ValueId,
        axis: u32,
        add: bool,
    ) -> Result<ValueId, GraphError> {
        self.add(Scatter { axis, add }, &[x, indices, updates])
    }
}

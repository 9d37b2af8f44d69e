//! `argmax`: where each row's largest element is.

use serde::{Deserialize, Serialize};
use wisp_types::{DType, Shape};

use super::{Inferred, Op, OpRules, operands::expect_rows, softmax::lower_rows};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering},
    value::{TensorType, Value, ValueId},
};

/// The index of each row's largest element, the lowest of equals.
///
/// Operands: `x f32 [.., cols]`. Result: `u32 [..]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argmax;

impl From<Argmax> for Op {
    fn from(op: Argmax) -> Op {
        Op::Argmax(op)
    }
}

impl OpRules for Argmax {
    fn name(&self) -> &'static str {
        "argmax"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [x] = operands else {
            return Err(OpProblem::operand_count("x", operands.len()));
        };
        expect_rows(x, "x", DType::F32)?;
        let outer = x.shape.0[..x.rank() - 1].to_vec();
        Ok(vec![TensorType::u32(Shape(outer))])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        lower_rows(node, op)
    }
}

impl Graph {
    /// Returns where the largest element along a dimension is, the lowest index of equals: `x` without
    /// that dimension, as `u32`.
    ///
    /// # Errors
    ///
    /// If `x` has no such dimension, or is not `f32`.
    pub fn argmax(&mut self, x: ValueId, axis: u32) -> Result<ValueId, GraphError> {
        self.composed("argmax", &[x], |graph| {
            let (rank, axis) = (graph.rank_with_axis("argmax", x, axis)?, axis as usize);
            let x = match axis + 1 == rank {
                true => x,
                false => {
                    let others = (0..rank).filter(|other| *other != axis);
                    let axes: Vec<usize> = others.chain([axis]).collect();
                    graph.permute(x, &axes)?
                }
            };
            graph.add(Argmax, &[x])
        })
    }
}

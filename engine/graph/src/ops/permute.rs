//! `permute`: dimensions in another order.

use serde::{Deserialize, Serialize};
use wisp_types::Shape;

use super::{Inferred, Op, OpRules, operands::expect_tensors};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, Size},
    value::{MAX_RANK, TensorType, Value, ValueId},
};

/// Dimensions in another order.
///
/// Operands: `x`. Result: `x` with its dimensions reordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permute {
    /// The operand's dimension that becomes each dimension of the result.
    pub axes: Axes,
}

/// An order of dimensions: dimension `i` of the result is dimension `axes[i]` of the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Axes {
    axes: [u8; MAX_RANK],
    rank: u8,
}

impl Axes {
    /// Returns an order of dimensions; `None` if there are more than [`MAX_RANK`].
    pub fn new(axes: &[usize]) -> Option<Axes> {
        let mut order = [0; MAX_RANK];
        for (stored, axis) in order.get_mut(..axes.len())?.iter_mut().zip(axes) {
            *stored = u8::try_from(*axis).ok()?;
        }
        Some(Axes {
            axes: order,
            rank: axes.len() as u8,
        })
    }

    /// Returns, for each dimension of the result, the operand's dimension that it is.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let axes = self.axes.iter().take(self.rank.into());
        axes.map(|axis| usize::from(*axis))
    }
}

impl From<Permute> for Op {
    fn from(op: Permute) -> Op {
        Op::Permute(op)
    }
}

fn not_an_order(axes: &[usize], shape: &Shape) -> OpProblem {
    OpProblem::Settings(format!(
        "{axes:?} must name each dimension of {shape} exactly once"
    ))
}

impl OpRules for Permute {
    fn name(&self) -> &'static str {
        "permute"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [x] = operands else {
            return Err(OpProblem::operand_count("x", operands.len()));
        };
        expect_tensors(operands)?;
        let axes: Vec<usize> = self.axes.iter().collect();
        let mut sorted = axes.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..x.rank()) {
            return Err(not_an_order(&axes, &x.shape));
        }
        let dims = axes.iter().map(|axis| x.shape.0[*axis].clone());
        Ok(vec![TensorType {
            dtype: x.dtype,
            shape: Shape(dims.collect()),
        }])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let own = op.strides(node.inputs[0]);
        let strides = self.axes.iter().map(|axis| own[axis].clone()).collect();
        op.copy_to_result(node.inputs[0], Size::fixed(0), strides, node.outputs[0])
    }
}

impl Graph {
    /// Reorders dimensions: dimension `i` of the result is dimension `axes[i]` of `x`.
    ///
    /// # Errors
    ///
    /// If `axes` do not name each dimension of `x` exactly once.
    pub fn permute(&mut self, x: ValueId, axes: &[usize]) -> Result<ValueId, GraphError> {
        match Axes::new(axes) {
            Some(axes) => self.add(Permute { axes }, &[x]),
            None => {
                let problem = not_an_order(axes, &self.value(x).shape);
                Err(self.error("permute", problem, &[x]))
            }
        }
    }
}

//! `map`: activations and other functions with a parameter, of each element.

use serde::{Deserialize, Serialize};
use wisp_types::DType;

use super::{Inferred, Op, OpRules, operands::expect_dtype};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    value::{TensorType, Value, ValueId},
};

/// An activation function of neural networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Activation {
    /// `x * sigmoid(x)`, also called swish.
    Silu,
    /// `x * Phi(x)` with the normal distribution's `Phi`, computed by the error function.
    Gelu,
    /// GELU's approximation by the hyperbolic tangent.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
}

/// A function of each element that has a parameter, or an activation. Functions without a parameter are
/// [`Unary`](super::Unary).
///
/// Operands: `x f32`. Result: of `x`'s shape.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Map {
    /// An activation.
    Activation(Activation),
    /// `factor * x`, by the factor.
    Scale(f32),
    /// `cap * tanh(x / cap)`, by the cap.
    Softcap(f32),
}

impl From<Map> for Op {
    fn from(op: Map) -> Op {
        Op::Map(op)
    }
}

impl OpRules for Map {
    fn name(&self) -> &'static str {
        "map"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [x] = operands else {
            return Err(OpProblem::operand_count("x", operands.len()));
        };
        expect_dtype(x, "x", DType::F32)?;
        Ok(vec![TensorType::f32(x.shape.clone())])
    }
}

impl Graph {
    /// Applies an activation, or another function with a parameter, to each element.
    ///
    /// # Errors
    ///
    /// If `x` is not `f32`.
    pub fn map(&mut self, x: ValueId, map: Map) -> Result<ValueId, GraphError> {
        self.add(map, &[x])
    }
}

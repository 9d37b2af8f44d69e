//! `map`: activations and other functions with a parameter, of each element.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::{
    ACTIVATION_GELU, ACTIVATION_GELU_TANH, ACTIVATION_RELU, ACTIVATION_SILU, MAP_SCALE,
    MAP_SOFTCAP, MapParams,
};
use wisp_types::DType;

use super::{Inferred, Op, OpRules, operands::expect_dtype};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, params},
    runtime_fields,
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

impl Activation {
    /// Returns the activation's number in the parameters of kernels.
    pub(crate) fn code(self) -> u32 {
        match self {
            Activation::Silu => ACTIVATION_SILU,
            Activation::Gelu => ACTIVATION_GELU,
            Activation::GeluTanh => ACTIVATION_GELU_TANH,
            Activation::Relu => ACTIVATION_RELU,
        }
    }
}

/// A function of each element that has a parameter, or an activation. Functions without a parameter are
/// [`Unary`](super::Unary).
///
/// Operands: `x f32`. Result: of `x`'s shape.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Map {
    /// An activation function, such as SiLU.
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

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let (kind, factor) = match *self {
            Map::Activation(activation) => (activation.code(), 1.0),
            Map::Scale(factor) => (MAP_SCALE, factor),
            Map::Softcap(cap) => (MAP_SOFTCAP, cap),
        };
        lower_map(
            node,
            op,
            MapParams {
                len: 0,
                kind,
                factor,
            },
        )
    }
}

/// Lowers a function of each element without a parameter to kernel `map`, by its code there.
pub(super) fn lower_function(
    node: NodeValues<'_>,
    op: &mut OpLowering<'_>,
    kind: u32,
) -> Result<(), LoweringError> {
    let fixed = MapParams {
        kind,
        ..Default::default()
    };
    lower_map(node, op, fixed)
}

fn lower_map(
    node: NodeValues<'_>,
    op: &mut OpLowering<'_>,
    fixed: MapParams,
) -> Result<(), LoweringError> {
    let len = op.elements(node.inputs[0]);
    let params = params(&fixed, runtime_fields!(MapParams, len = len));
    op.call_over_elements("map", node, params)
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

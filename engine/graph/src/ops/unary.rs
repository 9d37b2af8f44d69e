//! `neg`, `exp`, `sqrt` and other functions of each element.

use serde::{Deserialize, Serialize};
use wisp_types::DType;

use super::{
    Inferred, Op, OpRules,
    map::lower_function,
    operands::{expect_dtype, expect_tensors},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering},
    value::{Value, ValueId},
};

/// A function of each element without a parameter. Functions with one, and activations, are
/// [`Map`](super::Map).
///
/// Operands: `x f32`, for `not` `u32`. Result: of `x`'s type and shape. The op is called after the
/// function: `sqrt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u32)]
pub enum Unary {
    /// `-x`.
    Neg = 16,
    /// `|x|`.
    Abs = 17,
    /// `e^x`.
    Exp = 18,
    /// The natural logarithm.
    Log = 19,
    /// The square root.
    Sqrt = 20,
    /// `1 / sqrt(x)`.
    Rsqrt = 21,
    /// The sine of an angle in radians.
    Sin = 22,
    /// The cosine of an angle in radians.
    Cos = 23,
    /// The hyperbolic tangent.
    Tanh = 24,
    /// `1 / (1 + e^-x)`.
    Sigmoid = 25,
    /// The error function.
    Erf = 26,
    /// The largest integer not above `x`.
    Floor = 27,
    /// The smallest integer not below `x`.
    Ceil = 28,
    /// The nearest integer, the even one of two equally near.
    Round = 29,
    /// `1 / x`.
    Recip = 30,
    /// 1 where `x` is 0, else 0; of `u32`.
    Not = 33,
}

impl Unary {
    /// Returns the op's name, such as `sqrt`.
    pub fn name(self) -> &'static str {
        match self {
            Unary::Neg => "neg",
            Unary::Abs => "abs",
            Unary::Exp => "exp",
            Unary::Log => "log",
            Unary::Sqrt => "sqrt",
            Unary::Rsqrt => "rsqrt",
            Unary::Sin => "sin",
            Unary::Cos => "cos",
            Unary::Tanh => "tanh",
            Unary::Sigmoid => "sigmoid",
            Unary::Erf => "erf",
            Unary::Floor => "floor",
            Unary::Ceil => "ceil",
            Unary::Round => "round",
            Unary::Recip => "recip",
            Unary::Not => "not",
        }
    }

    fn operand_dtype(self) -> DType {
        match self {
            Unary::Not => DType::U32,
            _ => DType::F32,
        }
    }
}

impl From<Unary> for Op {
    fn from(op: Unary) -> Op {
        Op::Unary(op)
    }
}

impl OpRules for Unary {
    fn name(&self) -> &'static str {
        Unary::name(*self)
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [x] = operands else {
            return Err(OpProblem::operand_count("x", operands.len()));
        };
        expect_tensors(operands)?;
        expect_dtype(x, "x", self.operand_dtype())?;
        Ok(vec![x.tensor_type()])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        lower_function(node, op, *self as u32)
    }
}

impl Graph {
    /// Applies a function to each element.
    ///
    /// # Errors
    ///
    /// If `x` is not of the function's element type.
    pub fn unary(&mut self, function: Unary, x: ValueId) -> Result<ValueId, GraphError> {
        self.add(function, &[x])
    }
}

//! `cast`: conversion between element types.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::{MAP_FROM_U32, MAP_TO_U32};
use wisp_types::DType;

use super::{Inferred, Op, OpRules, map::lower_function, operands::expect_tensors};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering},
    value::{TensorType, Value, ValueId},
};

/// Conversion of elements to another type. Floats become `u32` by rounding towards zero; those outside its
/// range become its smallest or its largest value that a float can have.
///
/// Operands: `x`, of the other type. Result: of `x`'s shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cast {
    /// The type of the result.
    pub to: DType,
}

impl From<Cast> for Op {
    fn from(op: Cast) -> Op {
        Op::Cast(op)
    }
}

impl OpRules for Cast {
    fn name(&self) -> &'static str {
        "cast"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [x] = operands else {
            return Err(OpProblem::operand_count("x", operands.len()));
        };
        expect_tensors(operands)?;
        if x.dtype == self.to {
            return Err(OpProblem::Settings(format!("x is {} already", self.to)));
        }
        Ok(vec![TensorType {
            dtype: self.to,
            shape: x.shape.clone(),
        }])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        lower_function(node, op, function_code(self.to))
    }
}

/// Returns the number of the conversion in the parameters of kernel `map`.
fn function_code(to: DType) -> u32 {
    match to {
        DType::U32 => MAP_TO_U32,
        DType::F32 => MAP_FROM_U32,
    }
}

impl Graph {
    /// Converts elements to a type, by [`Cast`]'s rules. Returns `x` itself if it is of this type.
    ///
    /// # Errors
    ///
    /// If `x` is a buffer.
    pub fn cast(&mut self, x: ValueId, to: DType) -> Result<ValueId, GraphError> {
        match self.value(x).dtype == to {
            true => Ok(x),
            false => self.add(Cast { to }, &[x]),
        }
    }
}

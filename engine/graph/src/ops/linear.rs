//! `linear`: product with a weight, in the encoding that it is stored in.

use serde::{Deserialize, Serialize};
use wisp_types::{DType, Shape};

use super::{
    Inferred, Op, OpRules,
    operands::{expect, expect_rows, expect_weight},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    value::{TensorType, Value, ValueId},
};

/// `x` times a transposed weight, plus a bias. The weight may have any encoding: kernels read it as it is
/// stored.
///
/// Operands: `x f32 [.., cols]`, `weight`, a weight `[rows, cols]`, optionally `bias`, a weight `[rows]`.
/// Result: `f32 [.., rows]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Linear;

impl From<Linear> for Op {
    fn from(op: Linear) -> Op {
        Op::Linear(op)
    }
}

impl OpRules for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let (x, weight, bias) = match *operands {
            [x, weight] => (x, weight, None),
            [x, weight, bias] => (x, weight, Some(bias)),
            _ => {
                let expected = "x, weight and optionally bias";
                return Err(OpProblem::operand_count(expected, operands.len()));
            }
        };
        expect_rows(x, "x", DType::F32)?;
        expect(weight, "the weight", DType::F32, 2)?;
        expect_weight(weight, "the weight")?;
        let (outer, cols) = x.shape.0.split_at(x.rank() - 1);
        let rows = &weight.shape.0[0];
        if cols != &weight.shape.0[1..] {
            return Err(OpProblem::Mismatch(format!(
                "x {} and the weight {} must have the same number of columns",
                x.shape, weight.shape
            )));
        }
        if let Some(bias) = bias {
            expect(bias, "the bias", DType::F32, 1)?;
            if bias.shape.0[0] != *rows {
                return Err(OpProblem::Mismatch(format!(
                    "the bias must have an element for each of the weight's {rows} rows, but is {}",
                    bias.shape
                )));
            }
        }
        let dims = [outer, std::slice::from_ref(rows)].concat();
        Ok(vec![TensorType::f32(Shape(dims))])
    }
}

impl Graph {
    /// Multiplies `x [.., cols]` by a transposed weight `[rows, cols]` of any encoding and adds a bias
    /// `[rows]` if one is given: `[.., rows]`.
    ///
    /// # Errors
    ///
    /// If the shapes do not fit, or the weight is not a weight; see [`Graph::matmul`] for other values.
    pub fn linear(
        &mut self,
        x: ValueId,
        weight: ValueId,
        bias: Option<ValueId>,
    ) -> Result<ValueId, GraphError> {
        let operands: Vec<ValueId> = [x, weight].into_iter().chain(bias).collect();
        self.add(Linear, &operands)
    }
}

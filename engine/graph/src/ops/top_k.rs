//! `top_k`: the largest elements of each row.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::TopKParams;
use wisp_types::{DType, Shape};

use super::{
    Inferred, Op, OpRules,
    operands::{expect_dtype, expect_fixed, expect_tensors},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, Size, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// The largest elements of each row and their indices, the largest first; of equal elements the one with
/// the lowest index comes first, and NaN counts as the smallest.
///
/// Operands: `x f32 [.., cols]`. Results: the elements, `f32 [.., k]`, and their indices, `u32 [.., k]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopK {
    /// How many elements of each row; at most `cols`.
    pub k: u32,
}

impl From<TopK> for Op {
    fn from(op: TopK) -> Op {
        Op::TopK(op)
    }
}

impl OpRules for TopK {
    fn name(&self) -> &'static str {
        "top_k"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [x] = operands else {
            return Err(OpProblem::operand_count("x", operands.len()));
        };
        expect_tensors(operands)?;
        expect_dtype(x, "x", DType::F32)?;
        let Some((last, outer)) = x.shape.0.split_last() else {
            let expected = "a tensor of at least 1 dimension";
            return Err(OpProblem::operand("x", x, expected, "a scalar"));
        };
        let cols = expect_fixed(last, "the last dimension of x")?;
        let k = u64::from(self.k);
        if k == 0 || k > cols {
            return Err(OpProblem::Settings(format!(
                "cannot take the {k} largest of {cols} elements"
            )));
        }
        let shape = Shape([outer, &[k.into()]].concat());
        Ok(vec![TensorType::f32(shape.clone()), TensorType::u32(shape)])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let rows = op.rows(node.inputs[0]);
        let fixed = TopKParams {
            rows: 0,
            cols: op.cols(node.inputs[0])?,
            k: self.k,
        };
        let mut bindings = op.operands(node.inputs)?;
        bindings.extend(node.outputs.iter().map(|out| op.result(*out)));
        let params = params(&fixed, runtime_fields!(TopKParams, rows = rows));
        op.call("top_k", [rows, Size::fixed(1)], params, bindings)
    }
}

impl Graph {
    /// Returns the `k` largest elements of each row, the largest first, and their indices.
    ///
    /// # Errors
    ///
    /// If a row has fewer elements, or `x` is not `f32`.
    pub fn top_k(&mut self, x: ValueId, k: u32) -> Result<[ValueId; 2], GraphError> {
        self.add_pair(TopK { k }, &[x])
    }
}

//! `linear_experts`: products with the weights of each token's experts.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::MatmulExpertsParams;
use wisp_types::{DType, Shape};

use super::{
    Inferred, Op, OpRules,
    operands::{expect, expect_fixed, expect_weight},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{KernelCall, LoweringError, NodeValues, OpLowering, Size, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// Products with the transposed weights of each token's experts, in any encoding, as a mixture of experts
/// needs them (Shazeer et al. 2017).
///
/// Operands: `x f32 [tokens, cols]`, the same for all of a token's experts, or `[tokens, experts_per_token, cols]`;
/// `weight`, a weight `[experts, rows, cols]`; `ids u32 [tokens, chosen]`, the experts. Result: `f32 [tokens,
/// chosen, rows]`.
///
/// Without `ids`, each token has all experts in turn: `x f32 [tokens, experts, cols]`, of which each row is multiplied
/// with the weight of its own, as heads of attention are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinearExperts;

impl From<LinearExperts> for Op {
    fn from(op: LinearExperts) -> Op {
        Op::LinearExperts(op)
    }
}

impl OpRules for LinearExperts {
    fn name(&self) -> &'static str {
        "linear_experts"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let (x, weight, ids) = match *operands {
            [x, weight, ids] => (x, weight, Some(ids)),
            [x, weight] => (x, weight, None),
            _ => {
                let expected = "x, weight and optionally ids";
                return Err(OpProblem::operand_count(expected, operands.len()));
            }
        };
        expect(x, "x", DType::F32, x.rank().clamp(2, 3))?;
        expect(weight, "the weight", DType::F32, 3)?;
        expect_weight(weight, "the weight")?;
        let Some(ids) = ids else {
            let dims = &x.shape.0;
            if x.rank() != 3 || dims[1] != weight.shape.0[0] || dims[2] != weight.shape.0[2] {
                return Err(OpProblem::Mismatch(format!(
                    "x {} must have a row of the weight's columns for each of its matrices, {}",
                    x.shape, weight.shape
                )));
            }
            let dims = [&dims[..2], &weight.shape.0[1..2]].concat();
            return Ok(vec![TensorType::f32(Shape(dims))]);
        };
        expect(ids, "the ids", DType::U32, 2)?;
        let (outer, cols) = x.shape.0.split_at(x.rank() - 1);
        if cols != &weight.shape.0[2..] || !ids.shape.0.starts_with(outer) {
            return Err(OpProblem::Mismatch(format!(
                "x {} must have the columns of the weight {} and the outer dimensions of the ids {}",
                x.shape, weight.shape, ids.shape
            )));
        }
        // The kernel takes the number of experts that read a row of `x` as a constant.
        if x.rank() == 2 {
            expect_fixed(&ids.shape.0[1], "the number of a token's experts")?;
        }
        let dims = [&ids.shape.0[..], &weight.shape.0[1..2]].concat();
        Ok(vec![TensorType::f32(Shape(dims))])
    }

    /// Adds a call for each part of the weight that the target can bind; each writes the results of its own
    /// rows.
    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let [x, weight] = [node.inputs[0], node.inputs[1]];
        let ids = node.inputs.get(2).copied();
        let out = node.outputs[0];
        let (rows, pairs) = (op.cols(out)?, op.rows(out));
        // How many of a token's experts read the same row of `x`.
        let pairs_per_row = pairs.factor / op.rows(x).factor.max(1);
        let experts = u64::from(op.fixed_dim(weight, 0, "the number of experts")?);
        // Kernels bind ids in any case.
        let (bound_ids, out) = (op.operand(ids.unwrap_or(x))?, op.result(out));
        for part in op.matrix_parts(&[weight])? {
            let fixed = MatmulExpertsParams {
                pairs: 0,
                experts: op.count("the number of experts", experts)?,
                rows,
                cols: op.count("the weight's width", part.cols)?,
                blocks: op.count("the weight's width", part.cols.div_ceil(32))?,
                pairs_per_row: op.count("the number of experts", pairs_per_row)?,
                first_row: op.count("the weight's number of rows", part.first_row)?,
                chunk_rows: op.count("the weight's number of rows", part.rows)?,
                in_turn: ids.is_none().into(),
            };
            let x = op.product_rows("matmul_experts", part.encoding, x)?;
            let bindings = x.bindings(out, bound_ids, &part.planes);
            op.add_call(KernelCall {
                kernel: x.kernel,
                cols: part.cols,
                label: format!("{} {}", op.op(), op.value(weight).name),
                grid: [Size::fixed(rows.into()), pairs.clone()],
                params: params(&fixed, runtime_fields!(MatmulExpertsParams, pairs = pairs)),
                bindings,
                conditions: Vec::new(),
            })?;
        }
        Ok(())
    }
}

impl Graph {
    /// Multiplies each token by the weights of its experts; see [`LinearExperts`].
    ///
    /// # Errors
    ///
    /// If the shapes do not fit, or the weight is not a weight, or `x` has a row for each token and the number
    /// of a token's experts is symbolic.
    pub fn linear_experts(
        &mut self,
        x: ValueId,
        weight: ValueId,
        ids: ValueId,
    ) -> Result<ValueId, GraphError> {
        self.add(LinearExperts, &[x, weight, ids])
    }
}

//! `combine_experts`: the weighted sum of what a token's experts return.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::CombineExpertsParams;
use wisp_types::{DType, Shape};

use super::{Inferred, Op, OpRules, operands::expect};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// The weighted sum of the outputs of each token's experts, as [`Route`](super::Route) weights them.
///
/// Operands: `x f32 [tokens, experts_per_token, cols]`, `weights f32 [tokens, experts_per_token]`. Result: `f32 [tokens, cols]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CombineExperts;

impl From<CombineExperts> for Op {
    fn from(op: CombineExperts) -> Op {
        Op::CombineExperts(op)
    }
}

impl OpRules for CombineExperts {
    fn name(&self) -> &'static str {
        "combine_experts"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [x, weights] = operands else {
            return Err(OpProblem::operand_count("x and weights", operands.len()));
        };
        expect(x, "x", DType::F32, 3)?;
        expect(weights, "the weights", DType::F32, 2)?;
        if x.shape.0[..2] != weights.shape.0[..] {
            return Err(OpProblem::Mismatch(format!(
                "the weights {} must have the first two dimensions of x {}",
                weights.shape, x.shape
            )));
        }
        let dims = vec![x.shape.0[0].clone(), x.shape.0[2].clone()];
        Ok(vec![TensorType::f32(Shape(dims))])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let tokens = op.rows(node.outputs[0]);
        let fixed = CombineExpertsParams {
            experts_per_token: op.cols(node.inputs[1])?,
            cols: op.cols(node.outputs[0])?,
            ..Default::default()
        };
        let params = params(
            &fixed,
            runtime_fields!(CombineExpertsParams, tokens = tokens),
        );
        op.call_over_elements("combine_experts", node, params)
    }
}

impl Graph {
    /// Sums the outputs of each token's experts by their weights; see [`CombineExperts`].
    ///
    /// # Errors
    ///
    /// If the shapes do not fit.
    pub fn combine_experts(&mut self, x: ValueId, weights: ValueId) -> Result<ValueId, GraphError> {
        self.add(CombineExperts, &[x, weights])
    }
}

//! `route`: selection of each token's experts.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::RouteParams;
use wisp_types::{DType, Shape};

use super::{Inferred, Op, OpRules, operands::expect};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, Size, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// Selects each token's most likely experts by the softmax of the router's logits (Shazeer et al. 2017).
///
/// Operands: `logits f32 [tokens, experts]`. Results: the experts, `u32 [tokens, experts_per_token]`, and their weights,
/// `f32 [tokens, experts_per_token]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Experts of each token.
    pub experts_per_token: u32,
    /// Whether the weights of a token's experts are scaled to sum to 1.
    pub normalise: bool,
}

impl From<Route> for Op {
    fn from(op: Route) -> Op {
        Op::Route(op)
    }
}

impl OpRules for Route {
    fn name(&self) -> &'static str {
        "route"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [logits] = operands else {
            return Err(OpProblem::operand_count("logits", operands.len()));
        };
        expect(logits, "logits", DType::F32, 2)?;
        let (tokens, experts) = (&logits.shape.0[0], &logits.shape.0[1]);
        let chosen = u64::from(self.experts_per_token);
        if chosen == 0 || experts.fixed().is_none_or(|experts| chosen > experts) {
            return Err(OpProblem::Settings(format!(
                "cannot choose {chosen} of {experts} experts"
            )));
        }
        let shape = Shape(vec![tokens.clone(), chosen.into()]);
        Ok(vec![TensorType::u32(shape.clone()), TensorType::f32(shape)])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let tokens = op.rows(node.inputs[0]);
        let mut bindings = op.operands(node.inputs)?;
        bindings.extend(node.outputs.iter().map(|out| op.result(*out)));
        let fixed = RouteParams {
            tokens: 0,
            experts: op.cols(node.inputs[0])?,
            experts_per_token: self.experts_per_token,
            normalise: self.normalise.into(),
        };
        let params = params(&fixed, runtime_fields!(RouteParams, tokens = tokens));
        op.call("route", [tokens, Size::fixed(1)], params, bindings)
    }
}

impl Graph {
    /// Selects each token's experts and their weights; see [`Route`].
    ///
    /// # Errors
    ///
    /// If there are fewer experts than are chosen, or none is chosen.
    pub fn route(
        &mut self,
        logits: ValueId,
        experts_per_token: u32,
        normalise: bool,
    ) -> Result<[ValueId; 2], GraphError> {
        self.add_pair(
            Route {
                experts_per_token,
                normalise,
            },
            &[logits],
        )
    }
}

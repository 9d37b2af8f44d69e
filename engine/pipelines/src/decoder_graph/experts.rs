//! The mixture of experts (Shazeer et al. 2017, as in Mixtral and Qwen 3 MoE).

use wisp_graph::{
    Binary, Map, Op, Reduction, Unary, ValueId,
    ops::{CombineExperts, Gated, Gather, LinearExperts, Route, Select, TopK},
};
use wisp_types::shape;

use super::{
    builder::{GraphBuilder, outputs},
    error::DecoderError,
};
use crate::spec::{ExpertPart, ExpertScoring, FeedForwardGate, MoeSpec, SharedExpert, SpecError};

impl GraphBuilder<'_, '_> {
    /// Adds the mixture of experts, which read `x`, without the norms around it. The router reads `router_input`.
    pub fn mixture(
        &mut self,
        layer: usize,
        x: ValueId,
        router_input: ValueId,
    ) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let moe = spec.moe.ok_or(SpecError::MissingExperts)?;
        let (experts, hidden) = (u64::from(moe.experts), spec.hidden_size);
        let mut router_input = router_input;
        if moe.router_norm {
            let weight = self.layer_name(&names.router_norm, layer);
            let weight = self.weight(weight, &[hidden])?;
            router_input = self
                .graph
                .add(Op::Norm(spec.norm), &[router_input, weight])?;
            let scale = 1.0 / (hidden as f32).sqrt();
            router_input = self.map(router_input, Map::Scale(scale))?;
        }
        let name = self.layer_name(&names.router, layer);
        let logits = self.whole_linear(router_input, name, [experts, hidden])?;
        let [ids, mut weights] = self.route(layer, moe, logits)?;
        if moe.expert_scales {
            let scales = self.layer_name(&names.expert_scales, layer);
            let scales = self.weight(scales, &[experts])?;
            let scales = self.graph.add(Gather { axis: 0 }, &[scales, ids])?;
            weights = self.graph.add(Binary::Mul, &[weights, scales])?;
        }
        if moe.scale != 1.0 {
            weights = self.map(weights, Map::Scale(moe.scale))?;
        }
        let width = moe.latent_size.unwrap_or(hidden);
        let mut input = x;
        if moe.latent_size.is_some() {
            let name = self.layer_name(&names.expert_in, layer);
            input = self.whole_linear(x, name, [width, hidden])?;
        }
        if moe.weighted_input {
            input = self.weighted_inputs(moe, input, weights)?;
        }
        let activated = self.activated_experts(layer, moe, [input, ids])?;
        let down_shape = [experts, width, moe.intermediate_size];
        let down = self.expert_linear(layer, ExpertPart::Down, down_shape, [activated, ids])?;
        let mut routed = match moe.weighted_input {
            true => self.graph.reduce(Reduction::Sum, down, 1)?,
            false => self.graph.add(CombineExperts, &[down, weights])?,
        };
        if moe.latent_size.is_some() {
            let name = self.layer_name(&names.expert_out, layer);
            routed = self.whole_linear(routed, name, [hidden, width])?;
        }
        match moe.shared {
            None => Ok(routed),
            Some(shared) => {
                let shared = self.shared_expert(layer, shared, x)?;
                Ok(self.graph.add(Binary::Add, &[routed, shared])?)
            }
        }
    }

    /// Adds the inner layer of each token's experts `ids`.
    fn activated_experts(
        &mut self,
        layer: usize,
        moe: MoeSpec,
        [x, ids]: [ValueId; 2],
    ) -> Result<ValueId, DecoderError> {
        let width = moe.latent_size.unwrap_or(self.spec.hidden_size);
        let shape = [moe.experts.into(), moe.intermediate_size, width];
        let up = self.expert_linear(layer, ExpertPart::Up, shape, [x, ids])?;
        if self.spec.gate != FeedForwardGate::Projected {
            return self.activated(up);
        }
        let gate = self.expert_linear(layer, ExpertPart::Gate, shape, [x, ids])?;
        let activation = self.spec.activation;
        Ok(match moe.clamped {
            Some(clamped) => self.graph.add(clamped, &[gate, up])?,
            None => self.graph.add(Gated { activation }, &[gate, up])?,
        })
    }

    /// Adds the products of `x` with a projection of each token's experts `ids`, `[experts, rows, cols]`, with
    /// biases if the checkpoint has them.
    fn expert_linear(
        &mut self,
        layer: usize,
        part: ExpertPart,
        shape: [u64; 3],
        [x, ids]: [ValueId; 2],
    ) -> Result<ValueId, DecoderError> {
        let (weight, bias) = self.experts(layer, part, shape)?;
        self.require_order(weight)?;
        let product = self.graph.add(LinearExperts, &[x, weight, ids])?;
        let Some(bias) = bias else {
            return Ok(product);
        };
        let bias = self.graph.add(Gather { axis: 0 }, &[bias, ids])?;
        Ok(self.graph.add(Binary::Add, &[product, bias])?)
    }

    /// Selects each token's experts. Returns them and their weights.
    fn route(
        &mut self,
        layer: usize,
        moe: MoeSpec,
        logits: ValueId,
    ) -> Result<[ValueId; 2], DecoderError> {
        if moe.scoring == ExpertScoring::Softmax && !moe.selection_bias && moe.groups.is_none() {
            let route = Route {
                experts_per_token: moe.experts_per_token,
                normalise: moe.normalize,
            };
            return outputs(self.graph.add_all(route, &[logits])?);
        }
        let k = moe.experts_per_token;
        let scores = match moe.scoring {
            ExpertScoring::Softmax => self.graph.softmax(logits, 1)?,
            ExpertScoring::Sigmoid => self.graph.unary(Unary::Sigmoid, logits)?,
            ExpertScoring::SparseMixer(part) => {
                let [best, ids] = outputs(self.graph.add_all(TopK { k }, &[logits])?)?;
                return Ok([ids, self.sparse_mixer(moe, part, [logits, best])?]);
            }
        };
        let [ids, mut weights] = match moe.selection_bias {
            // The sigmoid keeps the order, and rounds large logits to equal scores.
            false if moe.scoring == ExpertScoring::Sigmoid && moe.groups.is_none() => {
                let [best, ids] = outputs(self.graph.add_all(TopK { k }, &[logits])?)?;
                [ids, self.graph.unary(Unary::Sigmoid, best)?]
            }
            false => {
                let scores = self.of_best_groups(moe, scores)?;
                let [weights, ids] = outputs(self.graph.add_all(TopK { k }, &[scores])?)?;
                [ids, weights]
            }
            true => {
                let name = self.layer_name(&self.names.selection_bias, layer);
                let bias = self.weight(name, &[u64::from(moe.experts)])?;
                let biased = self.graph.add(Binary::Add, &[scores, bias])?;
                let biased = self.of_best_groups(moe, biased)?;
                let [biased, ids] = outputs(self.graph.add_all(TopK { k }, &[biased])?)?;
                let bias = self.graph.add(Gather { axis: 0 }, &[bias, ids])?;
                [ids, self.graph.add(Binary::Sub, &[biased, bias])?]
            }
        };
        if moe.normalize {
            let sum = self.graph.reduce(Reduction::Sum, weights, 1)?;
            let sum = self.graph.reshape(sum, shape!["tokens", 1u64])?;
            weights = self.graph.add(Binary::Div, &[weights, sum])?;
        }
        Ok([ids, weights])
    }

    /// Adds the routing weights of the sparse mixer, `[tokens, experts_per_token]`, of logits and the `best` of them.
    fn sparse_mixer(
        &mut self,
        moe: MoeSpec,
        part: f32,
        [logits, best]: [ValueId; 2],
    ) -> Result<ValueId, DecoderError> {
        let (experts, k) = (u64::from(moe.experts), moe.experts_per_token);
        let graph = &mut self.graph;
        let logits = graph.reshape(logits, shape!["tokens", 1u64, experts])?;
        let best = graph.reshape(best, shape!["tokens", u64::from(k), 1u64])?;
        let below = graph.add(Binary::Sub, &[best, logits])?;
        let magnitude = graph.unary(Unary::Abs, logits)?;
        let magnitude = graph.add(Binary::Max, &[magnitude, best])?;
        let limit = graph.map(magnitude, Map::Scale(part))?;
        let is_near = graph.add(Binary::LessEqual, &[below, limit])?;
        // More likely experts have the weight 1 here, so that their number is subtracted from the sum.
        let zero = graph.scalar(0.0);
        let below = graph.add(Binary::Max, &[below, zero])?;
        let below = graph.unary(Unary::Neg, below)?;
        let weights = graph.unary(Unary::Exp, below)?;
        let weights = graph.add(Select, &[is_near, weights, zero])?;
        let sum = self.graph.reduce(Reduction::Sum, weights, 2)?;
        let more_likely: Vec<f32> = (0..k).map(|rank| rank as f32).collect();
        let more_likely = self.graph.constant(&more_likely, shape![u64::from(k)])?;
        let sum = self.graph.add(Binary::Sub, &[sum, more_likely])?;
        Ok(self.graph.unary(Unary::Recip, sum)?)
    }

    /// Adds what each expert of a token reads, `[tokens, experts_per_token, width]`: `x` times its weight.
    fn weighted_inputs(
        &mut self,
        moe: MoeSpec,
        x: ValueId,
        weights: ValueId,
    ) -> Result<ValueId, DecoderError> {
        let width = moe.latent_size.unwrap_or(self.spec.hidden_size);
        let k = u64::from(moe.experts_per_token);
        let x = self.graph.reshape(x, shape!["tokens", 1u64, width])?;
        let weights = self.graph.reshape(weights, shape!["tokens", k, 1u64])?;
        Ok(self.graph.add(Binary::Mul, &[x, weights])?)
    }

    /// Replaces the scores `[tokens, experts]` of experts that are not in a token's best groups by one below all
    /// others.
    fn of_best_groups(&mut self, moe: MoeSpec, scores: ValueId) -> Result<ValueId, DecoderError> {
        let Some(groups) = moe.groups else {
            return Ok(scores);
        };
        let (count, experts) = (u64::from(groups.groups), u64::from(moe.experts));
        let grouped = shape!["tokens", count, experts / count];
        let scores = self.graph.reshape(scores, grouped)?;
        let best = TopK { k: groups.best };
        let [best, _] = outputs(self.graph.add_all(best, &[scores])?)?;
        let of_groups = self.graph.reduce(Reduction::Sum, best, 2)?;
        let chosen = TopK { k: groups.chosen };
        let [chosen, _] = outputs(self.graph.add_all(chosen, &[of_groups])?)?;
        let least = self.graph.reduce(Reduction::Min, chosen, 1)?;
        let least = self.graph.reshape(least, shape!["tokens", 1u64])?;
        let is_chosen = self.graph.add(Binary::GreaterEqual, &[of_groups, least])?;
        let is_chosen = self
            .graph
            .reshape(is_chosen, shape!["tokens", count, 1u64])?;
        let lowest = self.graph.scalar(-1e30);
        let scores = self.graph.add(Select, &[is_chosen, scores, lowest])?;
        Ok(self.graph.reshape(scores, shape!["tokens", experts])?)
    }

    /// Adds the expert of every token.
    fn shared_expert(
        &mut self,
        layer: usize,
        shared: SharedExpert,
        x: ValueId,
    ) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let (hidden, inner) = (spec.hidden_size, shared.intermediate_size);
        let name = |template: &str| self.layer_name(template, layer);
        let [gate, up, down, router] = [
            name(&names.shared_gate),
            name(&names.shared_up),
            name(&names.shared_down),
            name(&names.shared_router),
        ];
        let activation = spec.activation;
        let activated = if spec.gate != FeedForwardGate::Projected {
            let up = self.whole_linear(x, up, [inner, hidden])?;
            self.activated(up)?
        } else {
            let [gate, up] = match names.shared_gate.is_empty() {
                true => {
                    let fused = self.layer_name(&names.shared_gate_up, layer);
                    let size = [2 * inner, hidden];
                    [
                        self.part_linear(x, &fused, 0..inner, size)?,
                        self.part_linear(x, &fused, inner..2 * inner, size)?,
                    ]
                }
                false => [
                    self.whole_linear(x, gate, [inner, hidden])?,
                    self.whole_linear(x, up, [inner, hidden])?,
                ],
            };
            self.graph.add(Gated { activation }, &[gate, up])?
        };
        let out = self.whole_linear(activated, down, [hidden, inner])?;
        if !shared.gated {
            return Ok(out);
        }
        let factor = self.whole_linear(x, router, [1, hidden])?;
        let factor = self.graph.unary(Unary::Sigmoid, factor)?;
        Ok(self.graph.add(Binary::Mul, &[out, factor])?)
    }
}

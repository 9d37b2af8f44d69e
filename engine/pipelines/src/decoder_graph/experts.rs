//! The mixture of experts (Shazeer et al. 2017, as in Mixtral and Qwen 3 MoE).

use wisp_graph::{
    ValueId,
    ops::{CombineExperts, Gated, LinearExperts, Route},
};

use super::{
    builder::{GraphBuilder, outputs},
    error::DecoderError,
};
use crate::spec::SpecError;

impl GraphBuilder<'_, '_> {
    /// Adds the mixture of experts that replaces the feed-forward network, without the norms around
    /// it.
    pub fn mixture(&mut self, layer: usize, x: ValueId) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let moe = spec.moe.ok_or(SpecError::MissingExperts)?;
        let (experts, hidden) = (u64::from(moe.experts), spec.hidden_size);
        let name = self.layer_name(&names.router, layer);
        let logits = self.whole_linear(x, name, [experts, hidden])?;
        let route = Route {
            experts_per_token: moe.experts_per_token,
            normalise: moe.normalize,
        };
        let routed = self.graph.add_all(route, &[logits])?;
        let [ids, weights] = outputs(routed)?;
        let up_shape = [experts, moe.intermediate_size, hidden];
        let gate = self.experts(&names.expert_gate, layer, up_shape)?;
        let gate = self.graph.add(LinearExperts, &[x, gate, ids])?;
        let up = self.experts(&names.expert_up, layer, up_shape)?;
        let up = self.graph.add(LinearExperts, &[x, up, ids])?;
        let activation = spec.activation;
        let activated = self.graph.add(Gated { activation }, &[gate, up])?;
        let down_shape = [experts, hidden, moe.intermediate_size];
        let down = self.experts(&names.expert_down, layer, down_shape)?;
        let down = self.graph.add(LinearExperts, &[activated, down, ids])?;
        Ok(self.graph.add(CombineExperts, &[down, weights])?)
    }
}

//! The dense feed-forward network.

use wisp_graph::{Map, ValueId, ops::Gated};

use super::{builder::GraphBuilder, error::DecoderError};
use crate::spec::LoraGroup;

impl GraphBuilder<'_, '_> {
    /// Adds the dense feed-forward network, without the norms around it.
    pub fn feed_forward(&mut self, layer: usize, x: ValueId) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let (hidden, inner) = (spec.hidden_size, spec.intermediate_size);
        let activation = spec.activation;
        let activated = if spec.gated {
            let [gate, up] = self.gate_up(layer);
            let gate = self.linear(x, &gate, hidden)?;
            let up = self.linear(x, &up, hidden)?;
            let gate_up = self.with_adapters(LoraGroup::GateUp, layer, x, [gate, up])?;
            self.graph.add(Gated { activation }, &gate_up)?
        } else {
            let name = self.layer_name(&names.up, layer);
            let up = self.whole_linear(x, name, [inner, hidden])?;
            let [up] = self.with_adapters(LoraGroup::GateUp, layer, x, [up])?;
            self.map(up, Map::Activation(activation))?
        };
        let name = self.layer_name(&names.down, layer);
        let out = self.whole_linear(activated, name, [hidden, inner])?;
        let [out] = self.with_adapters(LoraGroup::Down, layer, activated, [out])?;
        Ok(out)
    }
}

//! The dense feed-forward network.

use wisp_graph::{Activation, Binary, Map, Reduction, Unary, ValueId, ops::Gated};
use wisp_types::shape;

use super::{builder::GraphBuilder, error::DecoderError};
use crate::spec::{FeedForwardGate, LoraGroup};

impl GraphBuilder<'_, '_> {
    /// Adds the dense feed-forward network, without the norms around it.
    pub fn feed_forward(&mut self, layer: usize, x: ValueId) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let (hidden, inner) = (spec.hidden_size, spec.dense_width(layer));
        let activation = spec.activation;
        let activated = if spec.gate == FeedForwardGate::Projected {
            let [gate, up] = self.gate_up(layer);
            let gate = self.linear(x, &gate, hidden)?;
            let up = self.linear(x, &up, hidden)?;
            let [gate, up] = self.with_adapters(LoraGroup::GateUp, layer, x, [gate, up])?;
            let gate = self.scaled(gate, spec.layer_multipliers.gate)?;
            let gate = match spec.layers[layer].activation_cutoff {
                Some(cutoff) => self.above_cutoff(gate, cutoff)?,
                None => gate,
            };
            self.graph.add(Gated { activation }, &[gate, up])?
        } else {
            let name = self.layer_name(&names.up, layer);
            let up = self.whole_linear(x, name, [inner, hidden])?;
            let [up] = self.with_adapters(LoraGroup::GateUp, layer, x, [up])?;
            self.activated(up)?
        };
        let name = self.layer_name(&names.down, layer);
        let out = self.whole_linear(activated, name, [hidden, inner])?;
        let [out] = self.with_adapters(LoraGroup::Down, layer, activated, [out])?;
        Ok(out)
    }

    /// Adds what exceeds the mean of a row by `cutoff` standard deviations, and 0 elsewhere.
    fn above_cutoff(&mut self, x: ValueId, cutoff: f32) -> Result<ValueId, DecoderError> {
        let mean = self.row_mean(x)?;
        let centred = self.graph.add(Binary::Sub, &[x, mean])?;
        let squares = self.graph.add(Binary::Mul, &[centred, centred])?;
        let variance = self.row_mean(squares)?;
        let deviation = self.graph.unary(Unary::Sqrt, variance)?;
        let least = self.scaled(deviation, cutoff)?;
        let above = self.graph.add(Binary::Sub, &[centred, least])?;
        self.map(above, Map::Activation(Activation::Relu))
    }

    /// Adds the mean of each row of a matrix, `[tokens, 1]`.
    pub fn row_mean(&mut self, x: ValueId) -> Result<ValueId, DecoderError> {
        let mean = self.graph.reduce(Reduction::Mean, x, 1)?;
        Ok(self.graph.reshape(mean, shape!["tokens", 1u64])?)
    }

    /// Adds the activation of a feed-forward network without a projection of its gate.
    pub fn activated(&mut self, up: ValueId) -> Result<ValueId, DecoderError> {
        let activation = self.spec.activation;
        match self.spec.gate {
            FeedForwardGate::Own => Ok(self.graph.add(Gated { activation }, &[up, up])?),
            _ => self.map(up, Map::Activation(activation)),
        }
    }
}

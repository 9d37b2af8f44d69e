//! Embeddings of tokens for each layer, and the branch beside attention (Gemma 3n).

use wisp_graph::{
    Binary, Map, ValueId,
    ops::{Embed, Gated},
};
use wisp_types::{DType, shape};

use super::{builder::GraphBuilder, error::DecoderError, inputs::BlockInputs};
use crate::{config::LayerEmbeddingsPlacement, spec::LayerEmbeddings};

/// The graph's input for the embeddings of all layers, scaled, if their table is in host memory.
pub(crate) const LAYER_EMBEDDINGS: &str = "layer_embeddings";

impl GraphBuilder<'_, '_> {
    /// Adds the embeddings of all layers, `[tokens, layers * width]`: those of the tokens, scaled like the model's own, and
    /// a normalized projection of the first layer's input `x`.
    pub fn layer_embeddings(
        &mut self,
        embeddings: LayerEmbeddings,
        placement: LayerEmbeddingsPlacement,
        tokens: ValueId,
        x: ValueId,
    ) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let width = embeddings.width;
        let all = spec.layers.len() as u64 * width;
        let embedded = match placement {
            LayerEmbeddingsPlacement::Host => {
                let shape = shape!["tokens", all];
                self.graph.input(LAYER_EMBEDDINGS, DType::F32, shape)
            }
            _ => self.token_embeddings(embeddings, tokens, all)?,
        };
        let name = self.name(&names.layer_embedding_projection);
        let projected = self.whole_linear(x, name, [all, spec.hidden_size])?;
        let scale = 1.0 / (spec.hidden_size as f32).sqrt();
        let projected = self.map(projected, Map::Scale(scale))?;
        let name = self.name(&names.layer_embedding_norm);
        let projected = self.norm(spec.norm, projected, name, width)?;
        let sum = self.graph.add(Binary::Add, &[projected, embedded])?;
        self.map(sum, Map::Scale(std::f32::consts::FRAC_1_SQRT_2))
    }

    /// Adds the embeddings of the tokens in all layers, `[tokens, all]`, scaled, from the table on the device.
    fn token_embeddings(
        &mut self,
        embeddings: LayerEmbeddings,
        tokens: ValueId,
        all: u64,
    ) -> Result<ValueId, DecoderError> {
        let vocab_size = embeddings.vocab_size;
        let mut ids = tokens;
        if vocab_size < self.spec.vocab_size {
            let end = self
                .graph
                .constant_u32(&[vocab_size as u32], shape![1u64])?;
            let exists = self.graph.add(Binary::Less, &[ids, end])?;
            ids = self.graph.add(Binary::Mul, &[ids, exists])?;
        }
        let name = format!("{}.weight", self.name(&self.names.layer_embeddings));
        let table = self.weight(name, &[vocab_size, all])?;
        self.require_order(table)?;
        let scale = embeddings.scale();
        Ok(self.graph.add(Embed { scale }, &[ids, table])?)
    }

    /// Adds what a layer's embedding adds to its output `x`, if it has one.
    pub fn layer_input(
        &mut self,
        layer: usize,
        x: ValueId,
        inputs: &BlockInputs,
    ) -> Result<Option<ValueId>, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let (Some(all), Some(embeddings)) = (inputs.layer_embeddings, spec.layer_embeddings) else {
            return Ok(None);
        };
        let (hidden, width) = (spec.hidden_size, embeddings.width);
        let own = self.graph.slice(all, 1, layer as u64 * width, width, 1)?;
        let name = self.layer_name(&names.layer_input_gate, layer);
        let gate = self.whole_linear(x, name, [width, hidden])?;
        let activation = spec.activation;
        let gated = self.graph.add(Gated { activation }, &[gate, own])?;
        let name = self.layer_name(&names.layer_input_projection, layer);
        let projected = self.whole_linear(gated, name, [hidden, width])?;
        let name = self.layer_name(&names.layer_input_norm, layer);
        self.norm(spec.norm, projected, name, hidden).map(Some)
    }

    /// Adds the branch beside attention, which reads the same norm, to the residual sum `x` after attention. The result is
    /// scaled as a sum of two.
    pub fn laurel(
        &mut self,
        layer: usize,
        rank: u64,
        normed: ValueId,
        x: ValueId,
    ) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let hidden = spec.hidden_size;
        let name = |template: &str| self.layer_name(template, layer);
        let [left, right, norm] = [
            name(&names.laurel_left),
            name(&names.laurel_right),
            name(&names.laurel_norm),
        ];
        let low = self.whole_linear(normed, left, [rank, hidden])?;
        let branch = self.whole_linear(low, right, [hidden, rank])?;
        let branch = self.norm(spec.norm, branch, norm, hidden)?;
        let branch = self.graph.add(Binary::Add, &[normed, branch])?;
        let sum = self.graph.add(Binary::Add, &[x, branch])?;
        self.map(sum, Map::Scale(std::f32::consts::FRAC_1_SQRT_2))
    }
}

//! The output layer.

use wisp_graph::{Map, ValueId};

use super::{builder::GraphBuilder, error::DecoderError};

impl GraphBuilder<'_, '_> {
    /// Adds the logits `[rows, vocab]` of hidden states `[rows, hidden]`.
    pub fn logits(&mut self, hidden: ValueId, embedding: ValueId) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let mut logits = if spec.tied {
            self.product(hidden, embedding, None)?
        } else {
            // The output layer is stored `[out, in]` even where the weights of the blocks are not.
            // Checkpoints of multimodal models may store it with the language model.
            let inner = format!("language_model.{}", names.output);
            let output = match self.has(&format!("{inner}.weight")) {
                true => inner,
                false => names.output.to_string(),
            };
            let weight = format!("{output}.weight");
            let weight = self.weight(weight, &[spec.vocab_size, spec.hidden_size])?;
            let bias = format!("{output}.bias");
            let bias = match self.has(&bias) {
                true => Some(self.weight(bias, &[spec.vocab_size])?),
                false => None,
            };
            self.product(hidden, weight, bias)?
        };
        if spec.logit_multiplier != 1.0 {
            logits = self.map(logits, Map::Scale(spec.logit_multiplier))?;
        }
        if spec.logit_softcap != 0.0 {
            logits = self.map(logits, Map::Softcap(spec.logit_softcap))?;
        }
        Ok(logits)
    }
}

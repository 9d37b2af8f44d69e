//! The output layer.

use wisp_graph::{Map, ValueId, ops::Linear};

use super::{builder::GraphBuilder, error::DecoderError};

impl GraphBuilder<'_, '_> {
    /// Adds the logits `[rows, vocab]` of hidden states `[rows, hidden]`.
    pub fn logits(&mut self, hidden: ValueId, embedding: ValueId) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let mut logits = if spec.tied {
            self.graph.add(Linear, &[hidden, embedding])?
        } else {
            // The output layer is stored `[out, in]` even where the weights of the blocks are not.
            let weight = format!("{}.weight", names.output);
            let weight = self.weight(weight, &[spec.vocab_size, spec.hidden_size])?;
            let mut operands = vec![hidden, weight];
            let bias = format!("{}.bias", names.output);
            if self.has(&bias) {
                operands.push(self.weight(bias, &[spec.vocab_size])?);
            }
            self.graph.add(Linear, &operands)?
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

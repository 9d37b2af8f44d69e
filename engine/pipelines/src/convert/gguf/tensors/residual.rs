//! The tensors of several versions of the residual stream, and of embeddings of layers.

use wisp_weights::{View, WeightSource};

use super::Plan;
use crate::{
    convert::{error::ConvertError, gguf::parts::Change},
    spec::TensorNames,
};

impl Plan<'_, '_, '_> {
    /// Adds the tensors outside the blocks that change the residual stream.
    pub(super) fn add_residual_parts(&mut self, to: &TensorNames) -> Result<(), ConvertError> {
        let from = self.names;
        if let Some(alt_up) = self.spec.alt_up {
            let pairs = [
                (&from.alt_up_in, &to.alt_up_in),
                (&from.alt_up_out, &to.alt_up_out),
            ];
            for (from, to) in pairs {
                let template = format!("{}{from}.weight", self.prefix);
                let others = alt_up.inputs.saturating_sub(1);
                self.stack(&template, others, format!("{to}.weight"))?;
            }
        }
        if self.spec.layer_embeddings.is_some() {
            self.add_layer_embeddings(to)?;
            let (from, to) = (
                [&from.layer_embedding_projection, &from.layer_embedding_norm],
                [&to.layer_embedding_projection, &to.layer_embedding_norm],
            );
            self.add(from[0], to[0], Change::None)?;
            self.add(from[1], to[1], Change::Norm)?;
        }
        Ok(())
    }

    /// Adds the table of embeddings of layers. Other programs look up every token there: tokens beyond the end of the
    /// checkpoint's table get the row that the model takes for them, the first.
    fn add_layer_embeddings(&mut self, to: &TensorNames) -> Result<(), ConvertError> {
        let name = format!("{}{}.weight", self.prefix, self.names.layer_embeddings);
        let Some(info) = self.checkpoint.find(&name) else {
            return Ok(());
        };
        let &[rows, cols] = info.shape.as_slice() else {
            return Ok(());
        };
        self.used.insert(name.clone());
        let tokens = self.spec.vocab_size.max(rows);
        let mut parts = vec![(name.clone(), 0..rows)];
        parts.extend((rows..tokens).map(|_| (name.clone(), 0..1)));
        let to = format!("{}.weight", to.layer_embeddings);
        self.add_view(to, View::Rows(parts), &[tokens, cols])
    }
}

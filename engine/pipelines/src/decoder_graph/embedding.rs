//! The input of the first block.

use wisp_graph::{Binary, ValueId, ops::Embed};
use wisp_types::{DType, shape};

use super::{builder::GraphBuilder, error::DecoderError};

impl GraphBuilder<'_, '_> {
    /// Adds the embeddings of tokens, positions and segment types, and an encoder's norm.
    pub fn embed(
        &mut self,
        tokens: ValueId,
        table: ValueId,
        index: ValueId,
    ) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let scale = spec.embedding_multiplier;
        let mut x = self.graph.add(Embed { scale }, &[tokens, table])?;
        if spec.learned_positions {
            let positions = match spec.encoder {
                Some(_) => self.graph.input("positions", DType::U32, shape!["tokens"]),
                None => index,
            };
            x = self.add_embedding(x, positions, &names.positions, spec.position_rows())?;
        }
        let Some(encoder) = spec.encoder else {
            return Ok(x);
        };
        if encoder.token_types > 0 {
            let types = self
                .graph
                .input("token_types", DType::U32, shape!["tokens"]);
            x = self.add_embedding(x, types, &names.token_types, encoder.token_types)?;
        }
        if !encoder.embedding_norm {
            return Ok(x);
        }
        let name = self.name(&names.embedding_norm);
        self.norm(spec.norm, x, name, spec.hidden_size)
    }

    /// Adds the rows that `ids` select from a table to `x`.
    fn add_embedding(
        &mut self,
        x: ValueId,
        ids: ValueId,
        name: &str,
        rows: u64,
    ) -> Result<ValueId, DecoderError> {
        let name = format!("{}.weight", self.name(name));
        let table = self.weight(name, &[rows, self.spec.hidden_size])?;
        let embedded = self.graph.add(Embed { scale: 1.0 }, &[ids, table])?;
        Ok(self.graph.add(Binary::Add, &[x, embedded])?)
    }
}

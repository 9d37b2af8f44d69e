//! The table of embeddings by layer in host memory.

use wisp_session::{Model, Tensor};
use wisp_weights::{MatrixRows, WeightSource};

use crate::{
    ModelFiles, PipelineError, config::LayerEmbeddingsPlacement, decoder_graph::LAYER_EMBEDDINGS,
};

/// Returns the name of the table in a model's checkpoint.
pub(super) fn table_name(files: &ModelFiles) -> String {
    let names = files.model_spec.tensor_names();
    let prefix = names.prefix(|name| files.checkpoint.find(name).is_some());
    format!("{prefix}{}.weight", names.layer_embeddings)
}

impl ModelFiles {
    /// Returns the bytes of the table of embeddings by layer in the files; `None` if the model has none.
    pub fn layer_embedding_bytes(&self) -> Option<u64> {
        self.model_spec.spec.layer_embeddings?;
        let table = self.checkpoint.find(&table_name(self))?;
        Some(table.len)
    }
}

/// The table of embeddings by layer in host memory, `[vocab_size, layers * width]`.
#[derive(Debug)]
pub(crate) struct LayerEmbeddingTable {
    rows: MatrixRows,
    /// Tokens that have a row; others have that of token 0.
    vocab_size: u64,
    /// The factor on every element.
    scale: f32,
}

impl LayerEmbeddingTable {
    /// Returns the table of a model, if it is on the host.
    ///
    /// # Errors
    ///
    /// If the checkpoint lacks it or has another one than the model's.
    pub fn of(
        files: &ModelFiles,
        placement: LayerEmbeddingsPlacement,
    ) -> Result<Option<LayerEmbeddingTable>, PipelineError> {
        let spec = &files.model_spec.spec;
        let (LayerEmbeddingsPlacement::Host, Some(embeddings)) = (placement, spec.layer_embeddings)
        else {
            return Ok(None);
        };
        let cols = embeddings.width.saturating_mul(spec.layers.len() as u64);
        let shape = [embeddings.vocab_size, cols];
        let rows = files.checkpoint.matrix_rows(&table_name(files), shape)?;
        Ok(Some(LayerEmbeddingTable {
            rows,
            vocab_size: embeddings.vocab_size,
            scale: embeddings.scale(),
        }))
    }

    /// Writes the rows of a step's tokens, `u32 [tokens]`, to a model that computes them.
    ///
    /// # Errors
    ///
    /// If the file was cut since it was opened, or the device fails.
    pub async fn write(&self, tokens: &Tensor, model: &Model) -> Result<(), PipelineError> {
        // Tokens that were sampled on the device are read back, which is why steps are not submitted ahead.
        let tokens = tokens.to_host().await?;
        let tokens = tokens.as_u32().unwrap_or_default();
        let row = |token: &u32| match u64::from(*token) {
            token if token < self.vocab_size => token,
            _ => 0,
        };
        let mut embeddings = self.rows.read(tokens.iter().map(row))?;
        embeddings.iter_mut().for_each(|x| *x *= self.scale);
        Ok(model.write(LAYER_EMBEDDINGS, &embeddings)?)
    }
}

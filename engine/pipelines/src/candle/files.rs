//! The files of a model that candle runs.

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;
use wisp_text::{
    python_json,
    tokenizer::{Tokenizer, TokenizerError},
};
use wisp_weights::Checkpoint;

use super::error::CandleError;
use crate::{
    error::PipelineError,
    model_files::{
        ModelFilesError, SamplingDefaults, read_config, read_generation_config, stop_tokens,
    },
    text_processor::TextProcessor,
};

/// What the files of a model that candle runs say.
#[derive(Debug)]
#[non_exhaustive]
pub struct CandleFiles {
    /// What the user calls the model, for error messages.
    pub name: String,
    /// The tensors in the model's safetensors or PyTorch files.
    pub checkpoint: Checkpoint,
    /// The content of `config.json`.
    pub config: Value,
    /// The tokenizer, or why it cannot be used. Token ids work without one.
    pub tokenizer: Result<Tokenizer, TokenizerError>,
    /// Tokens that end a text.
    pub stop_tokens: BTreeSet<u32>,
    /// How tokens are sampled where a request does not say it.
    pub sampling_defaults: SamplingDefaults,
}

impl CandleFiles {
    /// Opens a directory in Hugging Face's layout.
    ///
    /// # Errors
    ///
    /// If the files cannot be read, or are in GGUF.
    pub fn open(path: &Path) -> Result<CandleFiles, PipelineError> {
        let name = path.display().to_string();
        CandleFiles::from_checkpoint(name, Checkpoint::open(path)?, None)
    }

    /// Opens the files of a checkpoint on disk. The files that describe it are in `directory`, or
    /// else beside the weights.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn from_checkpoint(
        name: String,
        checkpoint: Checkpoint,
        directory: Option<&Path>,
    ) -> Result<CandleFiles, PipelineError> {
        if checkpoint.gguf().is_some() {
            return Err(CandleError::Gguf { name }.into());
        }
        let beside = checkpoint.directory().unwrap_or(Path::new("."));
        let directory = directory.unwrap_or(beside);
        let text = read_config(directory)?;
        let config =
            python_json::parse(text.as_bytes()).map_err(|error| ModelFilesError::File {
                file: "config.json".into(),
                problem: error.to_string(),
            })?;
        let tokenizer = Tokenizer::from_dir(directory);
        let generation = read_generation_config(directory)?;
        let generation = generation.as_deref();
        let stop_tokens = stop_tokens(&tokenizer, &text, generation);
        let sampling_defaults = generation.map(SamplingDefaults::from_generation_config);
        Ok(CandleFiles {
            name,
            checkpoint,
            config,
            tokenizer,
            stop_tokens,
            sampling_defaults: sampling_defaults.unwrap_or_default(),
        })
    }

    /// Returns the text side of the model.
    pub fn text(&self) -> TextProcessor {
        let stop_tokens = self.stop_tokens.iter().copied();
        let text = match &self.tokenizer {
            Ok(tokenizer) => TextProcessor::new(&self.name, tokenizer.clone(), stop_tokens),
            Err(error) => TextProcessor::unusable(&self.name, &error.to_string(), stop_tokens),
        };
        text.with_sampling_defaults(self.sampling_defaults)
    }
}

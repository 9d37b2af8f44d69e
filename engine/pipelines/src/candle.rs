//! The engine `huggingface`: architectures that Wisp lacks, through Hugging Face's candle on the CPU.
//!
//! A [`CandleModel`] is a [`PipelineModel`](super::PipelineModel) for one sequence at a time: candle's
//! models keep the state of a single sequence and compute the logits of its last token. So
//! [`TextGenerator`](super::TextGenerator) generates with it as with any other model.

mod architectures;
mod config;
mod error;
mod files;
mod pipeline;
mod weights;

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use candle_core::{Device, Tensor};
use serde_json::Value;

use super::{ConfigError, ModelLimits, PipelineError};
pub use architectures::{CANDLE_ARCHITECTURES, CandleArchitecture};
pub use error::CandleError;
pub use files::CandleFiles;

use architectures::Forward;
use weights::Weights;

/// True if candle has one of the architectures of these names.
pub fn has(names: &[String]) -> bool {
    architectures::find(names).is_some()
}

/// A model of candle's on the CPU, in f32, with the state of one sequence.
pub struct CandleModel {
    architecture: &'static CandleArchitecture,
    config: Value,
    weights: Arc<Weights>,
    forward: Forward,
    vocab_size: u64,
    limits: ModelLimits,
}

impl std::fmt::Debug for CandleModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CandleModel")
            .field("architecture", &self.architecture.name)
            .field("vocab_size", &self.vocab_size)
            .field("max_length", &self.limits.max_length)
            .finish_non_exhaustive()
    }
}

impl CandleModel {
    /// Loads a model's files for sequences of up to `max_length` tokens; `None`: as many as the model
    /// sees, at most 4096.
    ///
    /// # Errors
    ///
    /// If candle lacks the architecture, the checkpoint does not fit it, or the sequences are longer
    /// than what the model was made for.
    pub fn load(
        files: &CandleFiles,
        max_length: Option<u64>,
    ) -> Result<CandleModel, PipelineError> {
        let names = config::architectures(&files.config);
        let Some(architecture) = architectures::find(&names) else {
            let name = names.join(", ");
            return Err(CandleError::UnknownArchitecture { name }.into());
        };
        let mut fields = config::completed(architecture, &files.config)?;
        config::check_sizes(architecture, &fields, &files.checkpoint)?;
        let number = |key: &str| fields.get(key).and_then(Value::as_u64);
        let most = number("max_position_embeddings").unwrap_or(u64::MAX).max(1);
        let max_length = match max_length {
            Some(max_length) if max_length > most => {
                return Err(ConfigError::TooLong { max_length, most }.into());
            }
            Some(max_length) => max_length.max(1),
            None => most.min(LONGEST_BY_DEFAULT),
        };
        config::check_window(architecture, &fields, max_length)?;
        let vocab_size = number("vocab_size").unwrap_or_default();
        let tied = fields.get("tie_word_embeddings") == Some(&Value::Bool(true));
        if fields.contains_key("max_position_embeddings") {
            // Candle computes that many rotations.
            fields.insert("max_position_embeddings".into(), max_length.into());
        }
        let config = Value::Object(fields);
        let weights = Weights::read(&files.checkpoint, architecture.tensors, tied)?;
        let weights = Arc::new(weights);
        let forward = build(architecture, &config, &weights)?;
        weights.all_used(architecture, tied)?;
        Ok(CandleModel {
            architecture,
            config,
            weights,
            forward,
            vocab_size,
            limits: ModelLimits {
                max_length,
                max_step_tokens: max_length,
                max_logit_rows: LOGIT_ROWS,
                page_size: u32::try_from(max_length).unwrap_or(u32::MAX),
                max_steps: 1,
                ..ModelLimits::default()
            },
        })
    }

    /// The architecture.
    pub fn architecture(&self) -> &'static CandleArchitecture {
        self.architecture
    }

    /// Forgets the sequence: builds the model anew over the same tensors, because not all of candle's
    /// models can forget.
    ///
    /// # Errors
    ///
    /// If candle fails.
    pub fn reset(&mut self) -> Result<(), PipelineError> {
        self.forward = build(self.architecture, &self.config, &self.weights)?;
        Ok(())
    }

    /// Runs tokens that begin at `position`, which is where the sequence ends, and returns the logits
    /// `[vocab]` of the last one.
    ///
    /// # Errors
    ///
    /// If there are none or too many, one is not in the vocabulary, or candle fails.
    pub fn forward(&mut self, tokens: &[u32], position: usize) -> Result<Vec<f32>, PipelineError> {
        let vocab_size = self.vocab_size;
        let unknown = |token: &&u32| u64::from(**token) >= vocab_size;
        if let Some(token) = tokens.iter().find(unknown).copied() {
            return Err(PipelineError::UnknownToken { token, vocab_size });
        }
        let end = position as u64 + tokens.len() as u64;
        if tokens.is_empty() || end > self.limits.max_length {
            return Err(PipelineError::Batch);
        }
        // Behind a beginning candle's masks are not all those of several tokens.
        let at_once = if position == 0 { tokens.len() } else { 1 };
        let mut logits = Vec::new();
        for (part, tokens) in tokens.chunks(at_once).enumerate() {
            let forward = &mut self.forward;
            logits = guarded(|| {
                let tokens = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
                forward(&tokens, position + part)?.flatten_all()?.to_vec1()
            })?;
        }
        if logits.len() as u64 != vocab_size {
            let logits = logits.len();
            return Err(CandleError::Logits { logits, vocab_size }.into());
        }
        Ok(logits)
    }
}

/// Tokens whose logits are kept at a time, where a prompt's log-probabilities are wanted.
const LOGIT_ROWS: u64 = 32;

/// The longest sequence unless a longer one is asked for.
const LONGEST_BY_DEFAULT: u64 = 4096;

fn build(
    architecture: &CandleArchitecture,
    config: &Value,
    weights: &Arc<Weights>,
) -> Result<Forward, CandleError> {
    guarded(|| (architecture.build)(config, Weights::builder(weights)))
}

/// Runs candle's code, which panics over some checkpoints.
fn guarded<T>(work: impl FnOnce() -> candle_core::Result<T>) -> Result<T, CandleError> {
    let text = |panic: Box<dyn Any + Send>| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic
            .downcast_ref::<&str>()
            .unwrap_or(&"it panicked")
            .to_string(),
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(|error| CandleError::Candle(error.to_string())),
        Err(panic) => Err(CandleError::Candle(text(panic))),
    }
}

//! One of candle's models, with the state of one sequence.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use candle_core::{Device, Tensor};
use serde_json::{Map, Value};

use super::{
    architectures::{self, CandleArchitecture, Forward},
    config,
    error::CandleError,
    files::CandleFiles,
    weights::Weights,
};
use crate::{config::ConfigError, error::PipelineError, limits::ModelLimits};

/// The longest sequence, in tokens, unless a longer one is asked for.
const DEFAULT_MAX_LENGTH: u64 = 4096;

/// Tokens whose logits are kept at a time if the log-probabilities of a prompt are wanted.
const LOGIT_ROWS: u64 = 32;

/// One of candle's models on the CPU, in f32, with the state of one sequence.
pub struct CandleModel {
    architecture: &'static CandleArchitecture,
    config: Value,
    weights: Arc<Weights>,
    forward: Forward,
    pub(super) vocab_size: u64,
    pub(super) limits: ModelLimits,
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
    /// Loads a model for sequences of up to `max_length` tokens, or without one up to the model's
    /// context length, at most 4096.
    ///
    /// # Errors
    ///
    /// If candle lacks the architecture, the checkpoint does not fit it, or `max_length` exceeds the
    /// model's context length.
    pub fn load(
        files: &CandleFiles,
        max_length: Option<u64>,
    ) -> Result<CandleModel, PipelineError> {
        let (architecture, mut fields) = described(files)?;
        config::check_sizes(architecture, &fields, &files.checkpoint)?;
        let limits = limits(&fields, max_length)?;
        let max_length = limits.max_length;
        config::check_window(architecture, &fields, max_length)?;
        let vocab_size = number(&fields, "vocab_size").unwrap_or_default();
        let tied = fields.get("tie_word_embeddings") == Some(&Value::Bool(true));
        if fields.contains_key("max_position_embeddings") {
            // Candle computes the rotations of so many positions.
            fields.insert("max_position_embeddings".into(), max_length.into());
        }
        let config = Value::Object(fields);
        let weights = Weights::read(&files.checkpoint, architecture.tensors, tied)?;
        let weights = Arc::new(weights);
        let forward = build(architecture, &config, &weights)?;
        weights.check_all_used(architecture, tied)?;
        Ok(CandleModel {
            architecture,
            config,
            weights,
            forward,
            vocab_size,
            limits,
        })
    }

    /// Returns the limits with which [`Self::load`] loads a model.
    ///
    /// # Errors
    ///
    /// If candle lacks the architecture or does not support a value of the configuration, or `max_length` exceeds
    /// the model's context length.
    pub fn limits_of(
        files: &CandleFiles,
        max_length: Option<u64>,
    ) -> Result<ModelLimits, PipelineError> {
        let (_, fields) = described(files)?;
        Ok(limits(&fields, max_length)?)
    }

    /// The model's architecture.
    pub fn architecture(&self) -> &'static CandleArchitecture {
        self.architecture
    }

    /// Discards the sequence. The model is built again over the same tensors, because some of
    /// candle's models cannot discard their state.
    ///
    /// # Errors
    ///
    /// If candle fails.
    pub fn reset(&mut self) -> Result<(), PipelineError> {
        self.forward = build(self.architecture, &self.config, &self.weights)?;
        Ok(())
    }

    /// Appends tokens to the sequence, which has `position` tokens so far, and returns the logits
    /// `[vocab]` of the last one.
    ///
    /// # Errors
    ///
    /// If there are no tokens or too many, one is not in the vocabulary, or candle fails.
    pub fn forward(&mut self, tokens: &[u32], position: usize) -> Result<Vec<f32>, PipelineError> {
        let vocab_size = self.vocab_size;
        let is_unknown = |token: &&u32| u64::from(**token) >= vocab_size;
        if let Some(token) = tokens.iter().find(is_unknown).copied() {
            return Err(PipelineError::UnknownToken { token, vocab_size });
        }
        let end = position as u64 + tokens.len() as u64;
        if tokens.is_empty() || end > self.limits.max_length {
            return Err(PipelineError::Batch);
        }
        // Some of candle's masks are wrong for several tokens that follow others.
        let at_once = if position == 0 { tokens.len() } else { 1 };
        let mut logits = Vec::new();
        for (part, tokens) in tokens.chunks(at_once).enumerate() {
            let forward = &mut self.forward;
            logits = catch_panics(|| {
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

/// Returns the architecture of a model, and the fields of its configuration under candle's names.
fn described(
    files: &CandleFiles,
) -> Result<(&'static CandleArchitecture, Map<String, Value>), CandleError> {
    let names = config::classes(&files.config);
    let architecture = architectures::find(&names);
    let architecture = architecture.ok_or_else(|| CandleError::unknown_architecture(&names))?;
    Ok((
        architecture,
        config::completed(architecture, &files.config)?,
    ))
}

fn number(fields: &Map<String, Value>, key: &str) -> Option<u64> {
    fields.get(key).and_then(Value::as_u64)
}

/// Returns the limits of a model with these fields: its sequences have up to `max_length` tokens.
fn limits(
    fields: &Map<String, Value>,
    max_length: Option<u64>,
) -> Result<ModelLimits, ConfigError> {
    let max = number(fields, "max_position_embeddings");
    let max = max.unwrap_or(u64::MAX).max(1);
    let max_length = match max_length {
        Some(max_length) if max_length > max => {
            return Err(ConfigError::TooLong { max_length, max });
        }
        Some(max_length) => max_length.max(1),
        None => max.min(DEFAULT_MAX_LENGTH),
    };
    Ok(ModelLimits {
        max_length,
        max_step_tokens: max_length,
        max_logit_rows: LOGIT_ROWS,
        page_size: u32::try_from(max_length).unwrap_or(u32::MAX),
        max_steps: 1,
        ..ModelLimits::default()
    })
}

fn build(
    architecture: &CandleArchitecture,
    config: &Value,
    weights: &Arc<Weights>,
) -> Result<Forward, CandleError> {
    catch_panics(|| (architecture.build)(config, Weights::builder(weights)))
}

/// Runs candle's code, which panics on some checkpoints.
fn catch_panics<T>(work: impl FnOnce() -> candle_core::Result<T>) -> Result<T, CandleError> {
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

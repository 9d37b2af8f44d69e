//! Pipelines: from a checkpoint to text, for many users at once.
//!
//! | module | |
//! |---|---|
//! | [`model_files`] | a model's files together: weights, configuration, [`tokenizer`], [`chat_template`] |
//! | [`architectures`], [`spec`] | what kind of model it is, and what it computes |
//! | [`config`] | a [`PipelineConfig`] chooses model, device, encoding, cache and lengths |
//! | [`kv_cache`], [`scheduler`], [`request`] | pages of memory, which requests run next and with how many tokens |
//! | [`model`], [`sampling`] | one step of a batch on the device, and the choice of its tokens |
//! | [`text_generation`], [`text_encoder`] | texts in, texts or embeddings out |
//! | [`lora`] | adapters that come and go beside a model |
//!
//! Most programs need [`text_generation::TextGenerator`] only, whose page shows several requests at once.
//! [`ModelFiles`] opens a model's files and shows what they say before anything is loaded.

pub use wisp_text::{chat_template, tokenizer};

pub mod architectures;
mod batch;
pub mod benchmark;
#[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
pub mod candle;
#[cfg(not(target_arch = "wasm32"))]
mod compiled_file;
pub mod config;
#[cfg(not(target_arch = "wasm32"))]
pub mod convert;
mod decoder_graph;
mod decoder_model;
mod error;
mod format_bytes;
pub mod kv_cache;
mod limits;
pub mod log_probabilities;
pub mod lora;
pub mod model_files;
#[cfg(not(target_arch = "wasm32"))]
mod model_source;
mod pipeline_model;
mod pooling;
pub mod prepare;
mod request;
mod rope;
mod runner;
mod sampler;
pub mod sampling;
mod scheduler;
pub mod spec;
mod stoppable_text;
pub mod text_encoder;
pub mod text_generation;
mod text_processor;
mod window_rings;

pub use architectures::{Architecture, ModelSpec, register_architecture};
pub use batch::{Batch, BatchSequence, SequenceOutput, TokenHistory};
pub use config::{
    CacheStrategy, ConfigError, KvCacheFormat, PipelineConfig, PipelineEngine, RopeType,
};
pub use decoder_graph::DecoderError;
pub use decoder_model::DecoderModel;
pub use error::PipelineError;
pub use format_bytes::format_bytes;
pub use kv_cache::PrefixHits;
pub use limits::{ModelLimits, ReturnHiddenStates, ReturnLogits};
pub use log_probabilities::{LogProbabilities, TokenScore};
pub use lora::{Adapter, AdapterFiles, LoraError, LoraManager, LoraStatus};
pub use model_files::{ModelFiles, ModelFilesError};
pub use pipeline_model::{
    CheckpointModel, ModelInputs, ModelOutputs, NextTokens, PipelineModel, SamplingBuffers,
};
pub use pooling::{Pooling, normalize};
pub use request::{FinishReason, Request, RequestError, RequestId};
pub use sampling::{SamplingError, SamplingParams};
pub use scheduler::{PrefillProgress, SampledToken, StepEvents};
pub use spec::DecoderSpec;
pub use text_encoder::{
    Embeddings, EncodeError, EncodeOptions, EncoderTokenizer, TextEncoder, TokenizedText,
};
pub use text_generation::{GenerateOptions, Generation, TextEvent, TextEvents, TextGenerator};
pub use text_processor::TextProcessor;
pub use window_rings::WindowRings;
#[cfg(not(target_arch = "wasm32"))]
pub use wisp_hub::{self as huggingface_repo, HuggingFaceRepo, RepoError, RepoType};
pub use wisp_weights::{SupportedEncoding, WeightDType, WeightsFormat};

//! Pipelines: from a checkpoint to generated text or embeddings, for many requests at once. The crate may
//! depend on all engine crates below it (sessions, graphs, weights, text, hub), and knows no command-line
//! flag. It exists so that everything about models (architectures, KV cache, scheduling, sampling) is in
//! one place that no device or kernel depends on. Its names follow Modular MAX's `max.pipelines`.
//!
//! | module or type | |
//! |---|---|
//! | [`PipelineModel`] | a model that runs batches: the built-in [`DecoderModel`], or one of your own |
//! | [`TextGenerator`], [`TextEncoder`] | run requests through a model: texts in, texts or embeddings out |
//! | [`Batch`] | the tokens, positions, pages and sampling settings of one step |
//! | [`model_files`], [`config`] | a model's files; [`PipelineConfig`], the settings of model, device, cache and lengths |
//! | [`architectures`], [`spec`] | which architecture a checkpoint has, and what its decoder computes |
//! | [`kv_cache`], [`sampling`], [`lora`] | pages of the KV cache, sampling settings, low-rank adapters |
//! | [`chat`], [`chat_template`], [`grammar`], [`reasoning`], [`tokenizer`], [`tools`] | of [`wisp_text`] |
//!
//! A [`TextGenerator`] owns a scheduler, a model and a sampler. Each step the scheduler makes a batch, the
//! model executes it, and the sampler draws the tokens on the device. Applications use the `Model` of the
//! crate `wisp-engine`, which runs a generator on a thread of its own.

pub use wisp_text::{chat, chat_template, grammar, reasoning, tokenizer, tools};

pub mod architectures;
mod batch;
pub mod benchmark;
#[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
pub mod candle;
#[cfg(not(target_arch = "wasm32"))]
mod compiled_file;
pub mod config;
mod constrained;
#[cfg(not(target_arch = "wasm32"))]
pub mod convert;
mod decoder_graph;
mod decoder_model;
mod error;
mod format_bytes;
mod future_tokens;
pub mod kv_cache;
mod layer_embeddings;
mod limits;
pub mod log_probabilities;
pub mod lora;
pub mod model_files;
#[cfg(not(target_arch = "wasm32"))]
mod model_source;
mod normal_quantile;
mod pace;
mod pipeline_model;
mod pooling;
pub mod prepare;
mod remedies;
mod remedy;
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
mod utilization;
mod window_rings;

pub use architectures::{Architecture, ModelSpec, register_architecture};
pub use batch::{Batch, BatchSequence, SequenceOutput, TokenHistory};
pub use config::{
    CacheStrategy, ConfigError, KvCacheFormat, LayerEmbeddingsPlacement, PipelineConfig,
    PipelineEngine, RopeType,
};
pub use decoder_graph::DecoderError;
pub use decoder_model::DecoderModel;
pub use error::PipelineError;
pub use format_bytes::format_bytes;
pub use kv_cache::PrefixHits;
pub use limits::{ModelLimits, ReturnHiddenStates, ReturnLogits};
pub use log_probabilities::{LogProbabilities, TokenScore};
pub use lora::{Adapter, AdapterFiles, LoraError, LoraManager, LoraStatus};
pub use model_files::{ModelFiles, ModelFilesError, SamplingDefaults};
pub use pipeline_model::{
    CheckpointModel, ModelInputs, ModelOutputs, NextTokens, PipelineModel, SamplingBuffers,
};
pub use pooling::{Pooling, normalize};
pub use remedy::Remedy;
pub use request::{ClientId, FinishReason, Request, RequestError, RequestId};
pub use sampling::{SamplingError, SamplingParams};
pub use scheduler::{PrefillProgress, SampledToken, StepEvents};
pub use spec::DecoderSpec;
pub use text_encoder::{
    Embeddings, EncodeError, EncodeOptions, EncodeRequest, EncodeResult, EncoderTokenizer,
    Relevance, RerankOptions, TextEncoder, TokenizedText,
};
pub use text_generation::{
    EndingToken, GenerateOptions, Generation, StepError, TextEvent, TextEvents, TextGenerator,
};
pub use text_processor::TextProcessor;
pub use utilization::Utilization;
pub use window_rings::WindowRings;
#[cfg(not(target_arch = "wasm32"))]
pub use wisp_hub::{self as huggingface_repo, HuggingFaceRepo, RepoError, RepoType};
pub use wisp_weights::{SupportedEncoding, WeightDType, WeightsFormat};

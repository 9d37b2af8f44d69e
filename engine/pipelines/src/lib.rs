//! Pipelines: from a checkpoint to text, for many users at once.
//!
//! | module | |
//! |---|---|
//! | [`checkpoint`] | a model's files together: weights, configuration, [`tokenizer`], [`chat_template`] |
//! | [`architectures`], [`decoder`] | what kind of model it is, and its graph |
//! | [`config`], [`huggingface_repo`] | a [`PipelineConfig`] chooses model, device, encoding, cache and lengths |
//! | [`kv_cache`], [`scheduler`], [`request`] | pages of memory, which requests run next and with how many tokens |
//! | [`model`], [`sampling`] | one step of a batch on the device, and the choice of its tokens |
//! | [`text_generation`], [`text_encoder`] | texts in, texts or embeddings out |
//! | [`lora`] | adapters that come and go beside a model |
//!
//! Most programs need [`text_generation::TextGenerator`] only, whose page shows several requests at once.
//! What a model's files say is known before anything is loaded:
//!
//! ```
//! use wisp_engine::pipelines::{chat_template::Message, checkpoint::ModelFiles};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../native-demo/model/wisp-tiny.gguf");
//! let files = ModelFiles::open(path.as_ref())?;
//! let tokenizer = files.tokenizer.as_ref().map_err(|error| error.to_string())?;
//! let tokens = tokenizer.encode("A riddle, please!", false, false)?;
//! assert_eq!(tokenizer.decode(&tokens, true), "A riddle, please!");
//! let prompt = files.chat_prompt(&[Message::new("user", "A riddle, please!")])?;
//! assert!(prompt.len() > tokens.len());
//! # Ok(())
//! # }
//! ```

pub use wisp_text::{chat_template, tokenizer};

pub mod architectures;
pub mod benchmark;
#[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
pub mod candle;
pub mod checkpoint;
pub mod config;
#[cfg(not(target_arch = "wasm32"))]
pub mod convert;
pub mod decoder;
pub mod kv_cache;
pub mod log_probabilities;
pub mod lora;
pub mod model;
mod pipeline_model;
pub mod prepare;
pub mod request;
pub mod rope;
mod sampler;
pub mod sampling;
pub mod scheduler;
pub mod sentence_transformers;
mod stoppable_text;
pub mod text_encoder;
pub mod text_generation;
pub mod window;

use wisp_compiler::Footprint;
use wisp_graph::GraphError;
use wisp_session::SessionError;
use wisp_weights::WeightError;

pub use config::{
    CacheStrategy, ConfigError, KvCacheFormat, PipelineConfig, PipelineEngine, RopeType,
};
pub use decoder::{DecoderError, DecoderSpec};
pub use kv_cache::PrefixHits;
pub use log_probabilities::{LogProbabilities, TokenScore};
pub use lora::{Adapter, AdapterFiles, LoraError, LoraManager, LoraStatus};
pub use model::{DecoderModel, ModelLimits};
pub use pipeline_model::{
    ModelOutputs, PipelineModel, ReturnHiddenStates, ReturnLogits, SequenceInputs, TokenInputs,
};
pub use request::{FinishReason, Request, RequestError, RequestId};
pub use sampling::{SamplingError, SamplingParams};
pub use text_encoder::{EncodeError, EncodeOptions, Pooling, TextEncoder};
#[cfg(not(target_arch = "wasm32"))]
pub use wisp_hub::{self as huggingface_repo, HuggingFaceRepo, RepoError, RepoType};
pub use wisp_weights::{SupportedEncoding, WeightDType, WeightsFormat};

/// What can go wrong between a checkpoint and its text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// Occurs when the session fails.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Occurs when the checkpoint cannot be read.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// Occurs when the decoder's graph cannot be built from the checkpoint.
    #[error(transparent)]
    Decoder(#[from] DecoderError),
    /// Occurs when a graph is wrong, which is a defect of Wisp.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// Occurs when a request cannot be taken.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Occurs when a sampling parameter is outside its range.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// Occurs when there is no usable tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] tokenizer::TokenizerError),
    /// Occurs when a field of the configuration cannot be followed.
    #[error(transparent)]
    Settings(#[from] ConfigError),
    /// Occurs when a repository's files cannot be had.
    #[cfg(not(target_arch = "wasm32"))]
    #[error(transparent)]
    Repository(#[from] RepoError),
    /// Occurs when a model needs more memory than it may take.
    #[error(
        "the model needs {} (weights {}, KV cache {}, intermediate results {}), but may take {} of the device's free memory: {advice}",
        size(.needs.total()), size(.needs.weights), size(.needs.buffers), size(.needs.working), size(*.memory)
    )]
    DoesNotFit {
        /// What it needs.
        needs: Footprint,
        /// What it may take.
        memory: u64,
        /// What to change.
        advice: String,
    },
    /// Occurs when a token is not in the vocabulary.
    #[error("token {token} is not in the vocabulary of {vocab_size}")]
    UnknownToken {
        /// The token.
        token: u32,
        /// Words in the vocabulary.
        vocab_size: u64,
    },
    /// Occurs when a batch contradicts itself or the model's limits.
    #[error("the batch does not fit the model's limits")]
    Batch,
    /// Occurs when the KV cache of one layer, or the table of rotations, exceeds what the device binds
    /// at once.
    #[error(
        "a KV cache for {max_batch} sequences of {max_length} tokens is too large for this device: use --max-length {positions} or less"
    )]
    CacheTooLarge {
        /// Tokens of a sequence.
        max_length: u64,
        /// Sequences.
        max_batch: u64,
        /// The longest that fits.
        positions: u64,
    },
    /// Occurs when the model's configuration is missing or unusable.
    #[error("{file}: {problem}")]
    Config {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Occurs when no architecture of Wisp's is the checkpoint's.
    #[error(
        "the architecture {name} is not supported{elsewhere}; supported are {}",
        .supported.join(", ")
    )]
    UnknownArchitecture {
        /// The checkpoint's architecture.
        name: String,
        /// What else runs it, as the end of a sentence.
        elsewhere: &'static str,
        /// What Wisp has.
        supported: Vec<String>,
    },
    /// Occurs when an encoder is asked to go on with a text.
    #[error(
        "{architecture} is an encoder, which `wisp encode` runs; text is generated by decoders: {}",
        .decoders.join(", ")
    )]
    NotADecoder {
        /// The encoder.
        architecture: &'static str,
        /// The decoders that there are.
        decoders: Vec<&'static str>,
    },
    /// Occurs when a decoder is asked to encode a text.
    #[error("{architecture} is no encoder; encoders are {}", .encoders.join(", "))]
    NotAnEncoder {
        /// The decoder.
        architecture: &'static str,
        /// The encoders that there are.
        encoders: Vec<&'static str>,
    },
    /// Occurs when an adapter cannot be loaded, or is not.
    #[error(transparent)]
    Lora(#[from] LoraError),
    /// Occurs when candle cannot run a model.
    #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
    #[error(transparent)]
    Candle(#[from] candle::CandleError),
    /// Occurs when a text cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// Occurs when a model draws no usable token.
    #[error(
        "the model computed no finite logits (NaN or infinity): its weights are damaged or its format is not what its file says"
    )]
    NotFinite,
}

/// Bytes as people read them.
pub fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB"];
    let mut value = bytes as f64 / 1024.0;
    let mut unit = units[0];
    for next in &units[1..] {
        if value < 1000.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

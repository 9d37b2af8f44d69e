//! The error of loading and running a model, which wraps those of all layers below.

use wisp_compiler::Footprint;
use wisp_device::DeviceError;
use wisp_graph::GraphError;
#[cfg(not(target_arch = "wasm32"))]
use wisp_hub::RepoError;
use wisp_session::SessionError;
use wisp_text::{grammar::GrammarError, tokenizer::TokenizerError, tools::ToolError};
use wisp_weights::WeightError;

#[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
use crate::candle::{architectures::is_supported, error::CandleError};
use crate::{
    architectures::ArchitectureError,
    config::ConfigError,
    decoder_graph::DecoderError,
    format_bytes::format_bytes,
    lora::LoraError,
    model_files::ModelFilesError,
    remedy::{self, Remedy},
    request::{RequestError, RequestId},
    sampling::SamplingError,
    text_encoder::EncodeError,
};

/// Why a model cannot be opened, loaded or run. Messages name fields of the
/// [configuration](crate::PipelineConfig) between backquotes; a program may replace the names by
/// those of its flags. [`PipelineError::remedies`] has what to do as values.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// Occurs when the session fails.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Occurs when the weights cannot be read.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// Occurs when the architecture is unknown or its configuration cannot be used.
    #[error(transparent)]
    Architecture(ArchitectureError),
    /// Occurs when Wisp lacks an architecture that the engine `huggingface` of this build has.
    #[error(
        "the architecture {} is not supported, but candle has it: generate with \
         `engine = huggingface`",
        .names.join(", ")
    )]
    OnlyInCandle {
        /// The checkpoint's names for its architecture.
        names: Vec<String>,
    },
    /// Occurs when a file beside the weights is missing or cannot be used.
    #[error(transparent)]
    ModelFiles(ModelFilesError),
    /// Occurs when the model's graph cannot be built from the checkpoint.
    #[error(transparent)]
    Decoder(#[from] DecoderError),
    /// Occurs when a graph is inconsistent, which is a defect of Wisp.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// Occurs when a request cannot run.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Occurs when a sampling parameter is outside its range.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// Occurs when there is no usable tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// Occurs when a field of the configuration has a value that cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Occurs when the files of a repository cannot be found or downloaded.
    #[cfg(not(target_arch = "wasm32"))]
    #[error(transparent)]
    Repository(#[from] RepoError),
    /// Occurs when a model needs more memory than it may take.
    #[error(
        "the model needs {} (weights {}, KV cache {}{}, intermediate results {}), but may take {} of \
         the device's free memory: {}",
        format_bytes(.needs.total()),
        format_bytes(.needs.weights),
        format_bytes(.needs.buffers),
        of_which_adapters(*.adapters),
        format_bytes(.needs.working),
        format_bytes(*.memory),
        remedy::list(.remedies)
    )]
    DoesNotFit {
        /// The memory that it needs.
        needs: Footprint,
        /// Bytes of memory that it may take.
        memory: u64,
        /// Bytes of adapters, which count as part of the KV cache.
        adapters: u64,
        /// What makes it fit.
        remedies: Vec<Remedy>,
    },
    /// Occurs when a token is not in the vocabulary.
    #[error("token {token} is not in the vocabulary of {vocab_size}")]
    UnknownToken {
        /// The token's id, which is `vocab_size` or more.
        token: u32,
        /// The number of tokens in the vocabulary.
        vocab_size: u64,
    },
    /// Occurs when a limit of a model is zero or absurdly large.
    #[error("the limit `{field}` is {value}; 1 to {max} are supported")]
    Limits {
        /// The name of the limit, a field of [`ModelLimits`](crate::ModelLimits) or a product of two.
        field: &'static str,
        /// The refused value.
        value: u64,
        /// The largest value that is supported.
        max: u64,
    },
    /// Occurs when a batch is inconsistent or exceeds the model's limits.
    #[error("the batch does not fit the model's limits")]
    Batch,
    /// Occurs when a model of an application returns logits of another shape than its batch needs.
    #[error("the model returned logits of shape {found:?}, but the batch needs {expected:?}")]
    LogitsShape {
        /// `[logit_rows, vocab_size]` of the batch and the model.
        expected: [u64; 2],
        /// The shape of the returned tensor.
        found: Vec<u64>,
    },
    /// Occurs when the KV cache or the recurrent state of one layer, or the table of rotations, is larger
    /// than the device can bind.
    #[error(
        "the cache for {max_batch} sequences of {max_length} tokens is too large for this device: {}",
        remedy::list(.remedies)
    )]
    CacheTooLarge {
        /// Tokens of a sequence.
        max_length: u64,
        /// Sequences at the same time.
        max_batch: u64,
        /// What makes it fit.
        remedies: Vec<Remedy>,
    },
    /// Occurs when an adapter cannot be loaded or used.
    #[error(transparent)]
    Lora(#[from] LoraError),
    /// Occurs when candle cannot run a model.
    #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
    #[error(transparent)]
    Candle(#[from] CandleError),
    /// Occurs when a text cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// Occurs when tools are offered that no model can call.
    #[error(transparent)]
    Tools(#[from] ToolError),
    /// Occurs when an adapter that the configuration names cannot be loaded.
    #[error("adapter {name}: {source}")]
    Adapter {
        /// The adapter's name.
        name: String,
        /// What is wrong with it.
        source: Box<LoraError>,
    },
    /// Occurs when text is to be encoded, but the model has no usable tokenizer.
    #[error("{model}: {problem}")]
    NoTokenizer {
        /// The user's name for the model, such as its path.
        model: String,
        /// Why it has none.
        problem: String,
    },
    /// Occurs when the logits of a text are asked for, or kernels are to be measured, while requests run.
    #[error("the model is generating: wait until no request runs")]
    Busy,
    /// Occurs when the model computes no finite logits, so that no token can be sampled.
    #[error(
        "{}the model computed no finite logits (NaN or infinity): its weights are damaged or its \
         format is not what its file says",
        of_request(*.request)
    )]
    NotFinite {
        /// The request at fault; `None` if the logits of a text were computed.
        request: Option<RequestId>,
    },
    /// Occurs when a constraint is invalid, too large or not supported.
    #[error(transparent)]
    Grammar(#[from] GrammarError),
    /// Occurs when a text cannot follow its constraint any further. Other requests continue.
    #[error(
        "request {}: the constraint cannot be followed any further: it is too complex for the limits of a step, or \
         the vocabulary has no token for what must follow",
        request.0
    )]
    ConstraintFailed {
        /// The request at fault.
        request: RequestId,
    },
}

impl PipelineError {
    /// Returns the error of the device that caused this one, if a device did.
    pub fn device_error(&self) -> Option<&DeviceError> {
        let session = match self {
            PipelineError::Session(error) => error,
            PipelineError::Lora(error) => error.session_error()?,
            PipelineError::Adapter { source, .. } => source.session_error()?,
            _ => return None,
        };
        match session {
            SessionError::Device(error) => Some(error),
            SessionError::InOp { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

impl From<ArchitectureError> for PipelineError {
    fn from(error: ArchitectureError) -> PipelineError {
        match error {
            ArchitectureError::Weights(error) => PipelineError::Weights(error),
            #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
            ArchitectureError::Unknown { names, .. } if is_supported(&names) => {
                PipelineError::OnlyInCandle { names }
            }
            error => PipelineError::Architecture(error),
        }
    }
}

impl From<ModelFilesError> for PipelineError {
    fn from(error: ModelFilesError) -> PipelineError {
        match error {
            ModelFilesError::Architecture(error) => error.into(),
            ModelFilesError::Weights(error) => PipelineError::Weights(error),
            ModelFilesError::Tokenizer(error) => PipelineError::Tokenizer(error),
            error => PipelineError::ModelFiles(error),
        }
    }
}

fn of_request(request: Option<RequestId>) -> String {
    request.map_or(String::new(), |id| format!("request {}: ", id.0))
}

fn of_which_adapters(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        bytes => format!(" of which {} for adapters", format_bytes(bytes)),
    }
}

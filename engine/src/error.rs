//! The engine's error type.

use std::sync::Arc;

use wisp_device::DeviceError;
use wisp_pipelines::{
    EncodeError, FinishReason, PipelineError, Remedy, RequestError, grammar::GrammarError,
};

/// The errors of models. Common cases are variants to match on; [`Error::Failed`] holds all others
/// with their source.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Occurs when a prompt does not fit the context of the loaded model.
    #[error(
        "the prompt has {have} tokens, but the context holds {max}: shorten the prompt or load the model with a longer context"
    )]
    ContextFull {
        /// Tokens of the prompt.
        have: usize,
        /// The context length in tokens.
        max: usize,
    },
    /// Occurs when the model computes no finite logits for a request, so that no token can be sampled.
    /// Other requests continue.
    #[error(
        "request {request}: the model computed no finite logits (NaN or infinity): its weights are damaged or its format is not what its file says"
    )]
    NonFinite {
        /// The number of the request; see [`Events::request`](crate::Events::request).
        request: u64,
    },
    /// Occurs when a constraint is invalid, too large or not supported, before anything is generated.
    #[error(transparent)]
    Grammar(GrammarError),
    /// Occurs when a text cannot follow its constraint any further. Other requests continue.
    #[error(
        "request {request}: the constraint cannot be followed any further: it is too complex for the limits of a step, or the vocabulary has no token for what must follow"
    )]
    ConstraintFailed {
        /// The number of the request; see [`Events::request`](crate::Events::request).
        request: u64,
    },
    /// Occurs when a text that is read as JSON did not end by itself, such as at the limit on tokens.
    #[error(
        "the text is not the JSON that was asked for: {problem}; it ended because of: {reason:?}"
    )]
    IncompleteJson {
        /// Why the text ended.
        reason: FinishReason,
        /// Why it cannot be read.
        problem: String,
        /// The text.
        text: String,
    },
    /// Occurs when the prompt is empty.
    #[error("the prompt has no tokens: give a text")]
    EmptyPrompt,
    /// Occurs when a text to be embedded has no tokens, or a text to be ranked is blank. Texts are counted from 1.
    #[error("text {text} is empty: there is nothing to encode")]
    EmptyText {
        /// The number of the text.
        text: usize,
    },
    /// Occurs when a text to be embedded is longer than the model takes, and is not to be
    /// [cut](crate::Embedder::truncate). Texts are counted from 1.
    #[error("text {text} has {have} tokens, but the model takes at most {max}: shorten it")]
    TextTooLong {
        /// The number of the text.
        text: usize,
        /// Tokens of the text.
        have: usize,
        /// The largest number of tokens that the model takes.
        max: usize,
    },
    /// Occurs when loading was cancelled.
    #[error("loading was cancelled")]
    Cancelled,
    /// Occurs when an encoder receives a request to generate.
    #[error("{model} is an encoder: it makes embeddings, but cannot continue texts")]
    NotAGenerator {
        /// The name of the model.
        model: String,
    },
    /// Occurs when an encoder is to be loaded with an adapter.
    #[error(
        "{model} is an encoder, and encoders take no adapters: load it without adapter {adapter}"
    )]
    AdapterOfEncoder {
        /// The name of the model.
        model: String,
        /// The name of the adapter.
        adapter: String,
    },
    /// Occurs when embeddings are requested from a decoder that was not opened
    /// [for embeddings](crate::OpenModel::for_embeddings) or [for reranking](crate::OpenModel::for_reranking).
    #[error(
        "{model} continues texts, but makes no embeddings: load an encoder such as sentence-transformers/all-MiniLM-L6-v2"
    )]
    NotAnEncoder {
        /// The name of the model.
        model: String,
    },
    /// Occurs when text is passed to a model without a usable tokenizer.
    #[error("{model}: {problem}; token ids work without a tokenizer")]
    NoTokenizer {
        /// The name of the model.
        model: String,
        /// Why there is no tokenizer.
        problem: String,
    },
    /// Occurs when a device is out of memory, or a model needs more than its memory limit.
    #[error(transparent)]
    OutOfMemory(Arc<PipelineError>),
    /// Occurs when the device is lost: reset, unplugged, or its driver was updated.
    #[error("{device} was lost: {message}: load the model again")]
    DeviceLost {
        /// The name of the device.
        device: String,
        /// The driver's message.
        message: String,
    },
    /// Occurs when the thread that runs the model has ended, which is a bug in Wisp.
    #[error("the thread that runs the model has ended unexpectedly")]
    WorkerEnded,
    /// Occurs when a model is used that [`Model::unload`](crate::Model::unload) has unloaded.
    #[error("the model has been unloaded: load it again")]
    Unloaded,
    /// Occurs when the system cannot start a thread for the model.
    #[error("cannot start a thread for the model: {0}")]
    NoThread(Arc<std::io::Error>),
    /// Occurs in all other cases: unreadable files, options out of range, failing devices.
    #[error(transparent)]
    Failed(Arc<PipelineError>),
}

impl Error {
    /// Returns the underlying pipeline error, if there is one.
    pub fn pipeline_error(&self) -> Option<&PipelineError> {
        match self {
            Error::OutOfMemory(error) | Error::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Returns what may resolve the error, the most promising first. Empty if Wisp knows nothing that helps.
    /// The fields that remedies name are those of
    /// [`PipelineConfig`](crate::pipelines::PipelineConfig); [`ModelBuilder`](crate::ModelBuilder)'s
    /// methods set the most common of them.
    ///
    /// ```
    /// use wisp_engine::{Error, Remedy};
    ///
    /// let error = Error::ContextFull { have: 5000, max: 4096 };
    /// assert_eq!(error.remedies()[0], Remedy::ShortenPrompt { max_tokens: 4096 });
    /// ```
    pub fn remedies(&self) -> Vec<Remedy> {
        match self {
            Error::OutOfMemory(error) | Error::Failed(error) => error.remedies(),
            Error::ContextFull { have, max } => {
                let (tokens, max_length) = (*have, *max);
                let error = RequestError::TooLong { tokens, max_length };
                PipelineError::from(error).remedies()
            }
            Error::NotAGenerator { .. }
            | Error::NotAnEncoder { .. }
            | Error::AdapterOfEncoder { .. } => vec![Remedy::AnotherKindOfModel],
            Error::DeviceLost { .. } | Error::WorkerEnded | Error::Unloaded => {
                vec![Remedy::LoadAgain]
            }
            Error::TextTooLong { max, .. } => vec![Remedy::ShortenPrompt { max_tokens: *max }],
            Error::NonFinite { .. }
            | Error::Grammar(_)
            | Error::ConstraintFailed { .. }
            | Error::IncompleteJson { .. }
            | Error::EmptyPrompt
            | Error::EmptyText { .. }
            | Error::Cancelled
            | Error::NoThread(_)
            | Error::NoTokenizer { .. } => Vec::new(),
        }
    }

    /// Converts an error that several requests of one failed step share.
    pub(crate) fn shared(error: Arc<PipelineError>) -> Error {
        match error.device_error() {
            Some(DeviceError::OutOfMemory { .. } | DeviceError::BufferTooLarge { .. }) => {
                return Error::OutOfMemory(error);
            }
            Some(DeviceError::Lost { device, message }) => {
                return Error::DeviceLost {
                    device: device.clone(),
                    message: message.clone(),
                };
            }
            _ => {}
        }
        match &*error {
            PipelineError::Request(RequestError::Empty) => Error::EmptyPrompt,
            PipelineError::Request(RequestError::TooLong { tokens, max_length }) => {
                let (have, max) = (*tokens, *max_length);
                Error::ContextFull { have, max }
            }
            PipelineError::Encode(EncodeError::Empty { text }) => Error::EmptyText { text: *text },
            PipelineError::Encode(EncodeError::TooLong { text, tokens, most }) => {
                Error::TextTooLong {
                    text: *text,
                    have: *tokens,
                    max: usize::try_from(*most).unwrap_or(usize::MAX),
                }
            }
            PipelineError::NotFinite { request: Some(id) } => Error::NonFinite { request: id.0 },
            PipelineError::ConstraintFailed { request } => {
                Error::ConstraintFailed { request: request.0 }
            }
            PipelineError::Grammar(error) => Error::Grammar(error.clone()),
            PipelineError::NoTokenizer { model, problem }
            | PipelineError::Encode(EncodeError::NoTokenizer { model, problem }) => {
                Error::NoTokenizer {
                    model: model.clone(),
                    problem: problem.clone(),
                }
            }
            PipelineError::DoesNotFit { .. } | PipelineError::CacheTooLarge { .. } => {
                Error::OutOfMemory(error)
            }
            _ => Error::Failed(error),
        }
    }
}

impl<E: Into<PipelineError>> From<E> for Error {
    fn from(error: E) -> Error {
        Error::shared(Arc::new(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use wisp_pipelines::LoraError;
    use wisp_session::SessionError;

    use super::*;

    #[test]
    fn device_that_is_lost_while_an_adapter_is_loaded_is_lost() {
        let lost = SessionError::from(DeviceError::Lost {
            device: "a GPU".into(),
            message: "reset".into(),
        });
        let error = Error::from(LoraError::from(lost));
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
        assert_eq!(error.remedies(), [Remedy::LoadAgain]);
    }
}

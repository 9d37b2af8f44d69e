//! The errors of text encoding.

/// Why a text cannot be encoded. Texts are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// Occurs when a text has no tokens.
    #[error("text {text} is empty: there is nothing to encode")]
    Empty {
        /// Number of the text.
        text: usize,
    },
    /// Occurs when a text has more tokens than the model takes at once.
    #[error(
        "text {text} has {tokens} tokens, but the model takes at most {most}: shorten it, or ask for truncation"
    )]
    TooLong {
        /// Number of the text.
        text: usize,
        /// The number of its tokens.
        tokens: usize,
        /// The largest number of tokens that the model takes.
        most: u64,
    },
    /// Occurs when a text must be tokenised, but the model has no usable tokenizer.
    #[error("{model}: {problem}")]
    NoTokenizer {
        /// Name of the model.
        model: String,
        /// Why there is no tokenizer.
        problem: String,
    },
    /// Occurs when a model's embeddings need a step that Wisp does not support.
    #[error(
        "the model's embeddings are made with {what}, which is not supported: choose mean, cls, last or no pooling yourself"
    )]
    Unsupported {
        /// The unsupported step.
        what: String,
    },
    /// Occurs when documents are to be ranked by a model that does not score pairs of texts.
    #[error(
        "{problem}: documents are ranked by models such as BertForSequenceClassification with one label, or Qwen3-Reranker"
    )]
    NotAReranker {
        /// What the model lacks.
        problem: String,
    },
    /// Occurs when the model computes NaN or infinity.
    #[error(
        "text {text}: the model computed no finite hidden states (NaN or infinity): its weights are damaged or its format is not what its file says"
    )]
    NotFinite {
        /// Number of the first text at fault.
        text: usize,
    },
}

impl EncodeError {
    /// Returns the same error of a text that follows `before` others.
    #[must_use]
    pub fn behind(mut self, before: usize) -> EncodeError {
        match &mut self {
            EncodeError::Empty { text }
            | EncodeError::TooLong { text, .. }
            | EncodeError::NotFinite { text } => *text += before,
            EncodeError::NoTokenizer { .. }
            | EncodeError::Unsupported { .. }
            | EncodeError::NotAReranker { .. } => {}
        }
        self
    }
}

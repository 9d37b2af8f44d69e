//! What can go wrong with a text.

/// Why a text cannot be encoded. Texts are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// Occurs when a text has no tokens.
    #[error("text {text} is empty: there is nothing to encode")]
    Empty {
        /// Which text.
        text: usize,
    },
    /// Occurs when a text has more tokens than the model takes at once.
    #[error("text {text} has {tokens} tokens, but the model takes at most {most}: shorten it")]
    TooLong {
        /// Which text.
        text: usize,
        /// Its tokens.
        tokens: usize,
        /// The most that the model takes.
        most: u64,
    },
    /// Occurs when a text is to be cut into tokens, but there is no tokenizer.
    #[error("{model}: {problem}")]
    NoTokenizer {
        /// The model.
        model: String,
        /// Why there is none.
        problem: String,
    },
    /// Occurs when a model's embeddings are made with something that Wisp lacks.
    #[error(
        "the model's embeddings are made with {what}, which is not supported: choose mean, cls or no pooling yourself"
    )]
    Unsupported {
        /// What it is.
        what: String,
    },
    /// Occurs when a model computes NaN or infinity.
    #[error(
        "the model computed no finite hidden states (NaN or infinity): its weights are damaged or its format is not what its file says"
    )]
    NotFinite,
}

//! The errors of tokenizers.

use std::path::PathBuf;

/// The kinds of GGUF tokenizers (`tokenizer.ggml.model`) that are supported.
pub const SUPPORTED_KINDS: &str = "llama, gpt2, bert, t5, gemma4";

/// Why a tokenizer cannot be loaded or a text not be encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// Occurs when a metadata key that the tokenizer needs is absent or of another type.
    #[error("the tokenizer metadata has no usable '{key}' (expected {expected})")]
    MissingKey {
        /// The metadata key.
        key: &'static str,
        /// The type that the value must have.
        expected: &'static str,
    },
    /// Occurs when an array with one entry per token is shorter than the vocabulary.
    #[error("'{key}' has {actual} entries, but the vocabulary has {expected}")]
    WrongLength {
        /// The metadata key.
        key: &'static str,
        /// The number of tokens in the vocabulary.
        expected: usize,
        /// The number of entries found.
        actual: usize,
    },
    /// Occurs when the vocabulary is empty or has more tokens than 32-bit ids can number.
    #[error("the vocabulary has {actual} tokens; expected 1 to {max}", max = u32::MAX)]
    VocabularySize {
        /// The number of tokens found.
        actual: usize,
    },
    /// Occurs when two ids have the same text, so that encoding would be ambiguous.
    #[error("token {text:?} appears twice in the vocabulary, as ids {first} and {second}")]
    DuplicateToken {
        /// The token's text.
        text: String,
        /// The lower id.
        first: u32,
        /// The higher id.
        second: u32,
    },
    /// Occurs when a value has the right type but cannot be used.
    #[error("'{what}' is invalid: expected {expected}, found {actual}")]
    Invalid {
        /// The metadata key, the field or the file.
        what: String,
        /// What was expected.
        expected: String,
        /// What was found.
        actual: String,
    },
    /// Occurs when a GGUF file names a kind of tokenizer that is not supported.
    #[error("tokenizer kind '{kind}' is not supported (supported: {SUPPORTED_KINDS})")]
    UnsupportedKind {
        /// The value of `tokenizer.ggml.model`.
        kind: String,
    },
    /// Occurs when a GGUF file names an unknown pre-tokenizer. Any other one would silently give
    /// wrong tokens.
    #[error("pre-tokenizer '{name}' (tokenizer.ggml.pre) is not known")]
    UnknownPreTokenizer {
        /// The value of `tokenizer.ggml.pre`.
        name: String,
    },
    /// Occurs when encoding needs a special token that the checkpoint does not name.
    #[error("the tokenizer needs a token for {what}, but the checkpoint names none")]
    NoSpecialToken {
        /// The purpose of the token: BOS, EOS, SEP, unknown words.
        what: &'static str,
    },
    /// Occurs when the vocabulary has neither a token nor byte tokens for a part of the text, and no
    /// unknown token.
    #[error("the vocabulary has no token for {text:?}, no byte tokens and no unknown token")]
    NoTokenFor {
        /// The part of the text.
        text: String,
    },
    /// Occurs when a text that must not contain control tokens spells some, and the tokenizer's
    /// normalization undoes every attempt to break the spelling.
    #[error("the control token {spelling:?} in a message cannot be encoded as plain text")]
    ControlToken {
        /// The part of the text that is read as a control token.
        spelling: String,
    },
    /// Occurs when a checkpoint's folder has no `tokenizer.json`.
    #[error("{} is missing: copy it from the model's repository", path.display())]
    MissingFile {
        /// The path at which the file was expected.
        path: PathBuf,
    },
    /// Occurs when a file exists but cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The path of the file that exists but cannot be read.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Occurs when a JSON file cannot be parsed.
    #[error("cannot parse {file}: {source}")]
    Json {
        /// The file's name.
        file: &'static str,
        /// The parser's reason.
        source: serde_json::Error,
    },
    /// Occurs when the normalizer of a `tokenizer.json` makes a text far longer.
    #[error("tokenizer.json: the normalizer makes more than {limit} bytes of the text")]
    NormalizedTooLong {
        /// The number of bytes that this text may have.
        limit: usize,
    },
    /// Occurs when the expressions of a `tokenizer.json` take too long on a text.
    #[error("tokenizer.json: it takes more than {} s to encode the text", limit.as_secs())]
    TooSlow {
        /// The time that this text may take.
        limit: std::time::Duration,
    },
    /// Occurs when the `tokenizers` library refuses a `tokenizer.json` or a text.
    #[error("tokenizer.json: {0}")]
    Library(String),
}

impl TokenizerError {
    /// A [`TokenizerError::Invalid`] of anything printable.
    pub(crate) fn invalid(
        what: impl Into<String>,
        expected: impl Into<String>,
        actual: impl std::fmt::Display,
    ) -> Self {
        Self::Invalid {
            what: what.into(),
            expected: expected.into(),
            actual: actual.to_string(),
        }
    }

    /// An error of the `tokenizers` library.
    pub(crate) fn library(error: tokenizers::Error) -> Self {
        // Our own steps between those of the library have errors of their own.
        match error.downcast::<Self>() {
            Ok(own) => *own,
            Err(error) => Self::Library(error.to_string()),
        }
    }
}

//! What can go wrong with a tokenizer.

use std::path::PathBuf;

/// The GGUF tokenizer kinds (`tokenizer.ggml.model`) that can be rebuilt.
pub const SUPPORTED_KINDS: &str = "llama, gpt2, bert, t5, gemma4";

/// An error of loading or using a tokenizer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// Occurs when a metadata key that the tokenizer needs is absent or of another type.
    #[error("the tokenizer metadata has no usable '{key}' (expected {expected})")]
    MissingKey {
        /// The metadata key.
        key: &'static str,
        /// The type that it must have.
        expected: &'static str,
    },
    /// Occurs when a per-token array has another length than the vocabulary.
    #[error("'{key}' has {actual} entries, but the vocabulary has {expected}")]
    WrongLength {
        /// The metadata key.
        key: &'static str,
        /// The vocabulary's size.
        expected: usize,
        /// The array's length.
        actual: usize,
    },
    /// Occurs when the vocabulary has no token at all, or more than an id can name.
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
        /// The id that has it first.
        first: u32,
        /// The id that has it again.
        second: u32,
    },
    /// Occurs when a value is there but makes no sense.
    #[error("'{what}' is invalid: expected {expected}, found {actual}")]
    Invalid {
        /// The key, field or file part.
        what: String,
        /// What was expected.
        expected: String,
        /// What was found.
        actual: String,
    },
    /// Occurs when a GGUF file names a kind of tokenizer that is not built here.
    #[error(
        "tokenizer kind '{kind}' is not supported (supported: {SUPPORTED_KINDS}); \
         `--tokens` works without a tokenizer"
    )]
    UnsupportedKind {
        /// The value of `tokenizer.ggml.model`.
        kind: String,
    },
    /// Occurs when a GGUF file names a pre-tokeniser that the table does not know. Guessing one
    /// would give wrong tokens without a word.
    #[error(
        "pre-tokeniser '{name}' (tokenizer.ggml.pre) is unknown; \
         `--tokens` works without a tokenizer"
    )]
    UnknownPreTokenizer {
        /// The value of `tokenizer.ggml.pre`.
        name: String,
    },
    /// Occurs when a special token is needed but the checkpoint does not say which.
    #[error("the tokenizer needs a token for {what}, but the checkpoint names none")]
    NoSpecialToken {
        /// What for: BOS, EOS, SEP, unknown words.
        what: &'static str,
    },
    /// Occurs when text has a part that no token stands for and there is no unknown token.
    #[error("the vocabulary has no token for {text:?}, no byte tokens and no unknown token")]
    NoTokenFor {
        /// The part of the text.
        text: String,
    },
    /// Occurs when a checkpoint directory has no `tokenizer.json`.
    #[error(
        "{} is missing; `--tokens` works without a tokenizer",
        path.display()
    )]
    MissingFile {
        /// The file that was looked for.
        path: PathBuf,
    },
    /// Occurs when a file is there but cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Occurs when a JSON file cannot be parsed.
    #[error("cannot parse {file}: {source}")]
    Json {
        /// The file's name.
        file: &'static str,
        /// Why.
        source: serde_json::Error,
    },
    /// Occurs when the `tokenizers` library refuses a `tokenizer.json` or a text.
    #[error("tokenizer.json: {0}")]
    Library(String),
}

impl TokenizerError {
    /// An [`TokenizerError::Invalid`] from anything printable.
    pub fn invalid(
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
}

//! Tokenizers from the metadata of GGUF files.

mod backend;
mod bpe;
mod charsmap;
mod end_of_generation;
mod keys;
mod kinds;
mod load;
mod metadata;
mod pre_tokenizer;
mod pre_tokenizer_table;
mod special_ids;
mod special_tokens;
mod spm;
mod unigram;
mod vocabulary;
mod wordpiece;

pub(super) use load::load;
pub use metadata::GgufMetadata;

/// The pre-tokenizers that GGUF files can name.
///
/// This module is not a part of the stable interface: it is there for the conversion of models,
/// which looks for the name of the pre-tokenizer of a `tokenizer.json`.
#[doc(hidden)]
pub mod pre_tokenizers {
    pub use super::pre_tokenizer::PreTokenizer;
    pub use super::pre_tokenizer_table::{PRE_TOKENIZERS, PreTokenizerRules, Split};
}

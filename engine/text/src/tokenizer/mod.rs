//! Text to tokens and back.
//!
//! A [`Tokenizer`] comes from a GGUF file's metadata or from a directory in Hugging Face's layout.
//! Both give the tokens of the model's own tokenizer. What encoding does with special tokens has two
//! switches, as in llama.cpp: `add_special` puts BOS and the like around the text, `parse_special`
//! takes control tokens written in the text (`<|im_start|>`) for what they are; without it they are
//! plain text, which is what text from outside should be. User-defined tokens always match.
//!
//! Decoding gives the encoded text back, but for what an encoding loses: WordPiece and unigram
//! models normalise text; SPM models put a space before text after a special token and cannot tell
//! a `▁` in the text from a space.

mod bpe;
mod byte_level;
mod decoder;
mod end_of_generation;
mod error;
mod gguf;
mod huggingface;
mod metadata;
mod pretokenize;
mod pretokenizers;
mod rebuilt;
mod special;
mod spm;
mod stream;
#[cfg(test)]
mod tests;
mod tokenizer_json;
mod unigram;
mod vocabulary;
mod wordpiece;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use error::{SUPPORTED_KINDS, TokenizerError};
pub use huggingface::HuggingFaceFiles;
pub use metadata::Metadata;
pub use stream::Detokenizer;
#[cfg(not(target_arch = "wasm32"))]
pub use {pretokenize::PreTokenizer, pretokenizers::TABLE};

/// The name of the chat template that is used unless another is asked for.
pub const DEFAULT_TEMPLATE: &str = "default";

/// A tokenizer. Clones share their tables.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<Loaded>,
}

/// A loaded tokenizer: how it works and what the checkpoint says about it.
pub struct Loaded {
    pub backend: Box<dyn Backend + Send + Sync>,
    pub traits: Traits,
}

/// What a checkpoint says about its tokenizer.
#[derive(Debug, Default)]
pub struct Traits {
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    /// Every id that ends generation.
    pub end: BTreeSet<u32>,
    pub adds_bos: bool,
    /// Names and sources.
    pub chat_templates: Vec<(String, String)>,
    pub warnings: Vec<String>,
}

/// What every kind of tokenizer does.
pub trait Backend {
    /// See [`Tokenizer::encode`].
    fn encode(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<u32>, TokenizerError>;
    /// Appends the bytes that an id stands for; none for an unknown id.
    fn piece(&self, id: u32, out: &mut Vec<u8>);
    /// Whether an id is left out when special tokens are skipped.
    fn is_special(&self, id: u32) -> bool;
    /// Whether a space at the very beginning of a text is an artefact of encoding.
    fn strips_first_space(&self) -> bool;
    /// The text of an id as the vocabulary writes it.
    fn token(&self, id: u32) -> Option<String>;
    /// The id of such a text.
    fn id(&self, text: &str) -> Option<u32>;
    /// The number of ids.
    fn vocab_size(&self) -> usize;
}

impl Tokenizer {
    /// Rebuilds a tokenizer from the metadata of a GGUF file.
    ///
    /// # Errors
    ///
    /// When the kind or the pre-tokeniser is unknown, or the tables contradict each other.
    pub fn from_gguf(metadata: &dyn Metadata) -> Result<Self, TokenizerError> {
        gguf::load(metadata).map(Self::new)
    }

    /// Loads `tokenizer.json`, and what is there of `tokenizer_config.json`,
    /// `special_tokens_map.json`, `added_tokens.json`, `generation_config.json`, `config.json`,
    /// `chat_template.jinja` and `chat_template.json`, from a directory.
    ///
    /// # Errors
    ///
    /// When `tokenizer.json` is missing or a file cannot be read or parsed.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn from_dir(directory: impl AsRef<std::path::Path>) -> Result<Self, TokenizerError> {
        huggingface::load_directory(directory.as_ref()).map(Self::new)
    }

    /// Loads the same files from memory.
    ///
    /// # Errors
    ///
    /// When a file cannot be parsed.
    pub fn from_files(files: &HuggingFaceFiles<'_>) -> Result<Self, TokenizerError> {
        huggingface::load(files).map(Self::new)
    }

    fn new(loaded: Loaded) -> Self {
        Self {
            inner: Arc::new(loaded),
        }
    }

    pub fn backend(&self) -> &(dyn Backend + Send + Sync) {
        &*self.inner.backend
    }

    /// The tokens of a text.
    ///
    /// # Errors
    ///
    /// When no token stands for a part of the text, which byte-level vocabularies exclude.
    pub fn encode(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<u32>, TokenizerError> {
        self.backend().encode(text, add_special, parse_special)
    }

    /// The text of tokens. Bytes that are no UTF-8 become U+FFFD; ids that the vocabulary does not
    /// have are no text. `skip_special` leaves out control and unknown tokens.
    pub fn decode(&self, tokens: &[u32], skip_special: bool) -> String {
        let mut detokenizer = self.detokenizer(skip_special);
        let mut text = String::new();
        for &token in tokens {
            text.extend(detokenizer.push(token));
        }
        text.extend(detokenizer.finish());
        text
    }

    /// An incremental detokeniser at the beginning of a text. For a text that goes on from a prompt,
    /// let it [`skip`](Detokenizer::skip) the prompt first.
    pub fn detokenizer(&self, skip_special: bool) -> Detokenizer {
        Detokenizer::new(self.clone(), skip_special)
    }

    /// The text of one id as the vocabulary writes it (`Ġthe`, `▁the`, `<0x0A>`).
    pub fn token(&self, id: u32) -> Option<String> {
        self.backend().token(id)
    }

    /// The bytes that one id stands for in a text: maybe a part of a character, or nothing. A
    /// SentencePiece token keeps its leading space.
    pub fn token_bytes(&self, id: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.backend().piece(id, &mut bytes);
        bytes
    }

    /// The id of such a text.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.backend().id(token)
    }

    /// The number of ids, added tokens included. A model's logits may be padded beyond it.
    pub fn vocab_size(&self) -> usize {
        self.backend().vocab_size()
    }

    /// Whether an id is a control or unknown token.
    pub fn is_special(&self, id: u32) -> bool {
        self.backend().is_special(id)
    }

    /// The token that begins a text, if the checkpoint names one.
    pub fn bos(&self) -> Option<u32> {
        self.inner.traits.bos
    }

    /// Every token that ends a generation: end of text, of turn and of message.
    pub fn eos(&self) -> &BTreeSet<u32> {
        &self.inner.traits.end
    }

    /// The token that ends a text, as chat templates write it.
    pub fn eos_token(&self) -> Option<u32> {
        self.inner.traits.eos
    }

    /// Whether encoding with `add_special` begins with BOS.
    pub fn adds_bos(&self) -> bool {
        self.inner.traits.adds_bos
    }

    /// The source of a chat template, by name; `None` asks for the default one.
    pub fn chat_template(&self, name: Option<&str>) -> Option<&str> {
        let name = name.unwrap_or(DEFAULT_TEMPLATE);
        let templates = self.inner.traits.chat_templates.iter();
        let mut found = templates.filter(|(found, _)| found == name);
        found.next().map(|(_, source)| source.as_str())
    }

    /// The names of the chat templates.
    pub fn chat_template_names(&self) -> impl Iterator<Item = &str> {
        let templates = self.inner.traits.chat_templates.iter();
        templates.map(|(name, _)| name.as_str())
    }

    /// What was odd about the checkpoint but could be put right.
    pub fn warnings(&self) -> &[String] {
        &self.inner.traits.warnings
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Tokenizer")
            .field("vocab_size", &self.vocab_size())
            .field("traits", &self.inner.traits)
            .finish()
    }
}

//! Text to tokens and back.
//!
//! A [`Tokenizer`] comes from a GGUF file's metadata or from files in Hugging Face's layout, and
//! gives the tokens of the model's own tokenizer. Two switches control special tokens, as in
//! llama.cpp: `add_special` puts BOS and the like around the text, and `parse_special` reads control
//! tokens that the text spells (`<|im_start|>`). Without it they are plain text, which is the right
//! choice for text from outside. Added tokens that are not control tokens, such as `<think>` in many
//! vocabularies (GGUF's user-defined tokens, `"special": false` in `tokenizer.json`), match in
//! either case, as they do in llama.cpp and in `transformers`.
//!
//! Decoding returns the encoded text, except for what encoding loses: WordPiece and unigram models
//! normalize text; SPM models add a space to text after a special token and do not distinguish `▁`
//! from a space.

mod backend;
mod byte_level;
mod byte_tokens;
mod detokenizer;
mod error;
mod gguf;
mod huggingface;
mod marks;
mod pair;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use backend::LoadedTokenizer;

pub use backend::DEFAULT_TEMPLATE;
pub use detokenizer::Detokenizer;
pub use error::{SUPPORTED_KINDS, TokenizerError};
pub use gguf::GgufMetadata;
#[doc(hidden)]
pub use gguf::pre_tokenizers;
pub use huggingface::HuggingFaceFiles;
pub(crate) use marks::Marks;
pub use pair::PairTokens;
pub(crate) use pair::{PairPart, PairTemplate};

/// A tokenizer. Clones share their tables.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<LoadedTokenizer>,
}

impl Tokenizer {
    /// Rebuilds a tokenizer from the metadata of a GGUF file.
    ///
    /// # Errors
    ///
    /// If the kind or the pre-tokenizer is unknown, or the tables contradict each other.
    pub fn from_gguf(metadata: &dyn GgufMetadata) -> Result<Self, TokenizerError> {
        gguf::load(metadata).map(Self::new)
    }

    /// Loads `tokenizer.json` from a folder and, where they exist, `tokenizer_config.json`,
    /// `special_tokens_map.json`, `added_tokens.json`, `generation_config.json`, `config.json`,
    /// `chat_template.jinja` and `chat_template.json`.
    ///
    /// # Errors
    ///
    /// If `tokenizer.json` is missing, or a file cannot be read or parsed.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn from_dir(directory: impl AsRef<std::path::Path>) -> Result<Self, TokenizerError> {
        huggingface::load_directory(directory.as_ref()).map(Self::new)
    }

    /// Loads the files of [`Tokenizer::from_dir`] from memory.
    ///
    /// # Errors
    ///
    /// If a file cannot be parsed.
    pub fn from_files(files: &HuggingFaceFiles<'_>) -> Result<Self, TokenizerError> {
        huggingface::load(files).map(Self::new)
    }

    fn new(loaded: LoadedTokenizer) -> Self {
        Self {
            inner: Arc::new(loaded),
        }
    }

    /// Returns the tokens of a text. `add_special` adds BOS and the like around them;
    /// `parse_special` reads control tokens that the text spells.
    ///
    /// # Errors
    ///
    /// If a part of the text has no token, which cannot happen with byte-level vocabularies.
    pub fn encode(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<u32>, TokenizerError> {
        let backend = &self.inner.backend;
        backend.encode(text, add_special, parse_special)
    }

    /// Returns the tokens of two texts as one input, with the special tokens and segment types that
    /// the tokenizer gives to pairs; `None` if it has no template for pairs. The longer text is cut
    /// first if there are more than `most` tokens.
    ///
    /// # Errors
    ///
    /// As [`Self::encode`].
    pub fn encode_pair(
        &self,
        first: &str,
        second: &str,
        most: Option<usize>,
    ) -> Result<Option<PairTokens>, TokenizerError> {
        let Some(template) = self.inner.backend.pair_template() else {
            return Ok(None);
        };
        let [first, second] = [first, second].map(|text| self.encode(text, false, true));
        Ok(Some(template.join(&first?, &second?, most)))
    }

    /// Encodes text in which marks break the spelling of control tokens: other spellings become
    /// control tokens, and the marks are removed.
    pub(crate) fn encode_marked(
        &self,
        text: &str,
        marks: &Marks,
    ) -> Result<Vec<u32>, TokenizerError> {
        self.inner.backend.encode_marked(text, marks)
    }

    /// Marks every spelling of a control token in a text, and with `mark_ends` also the ends that
    /// could become a part of one.
    pub(crate) fn break_control_tokens(
        &self,
        text: &mut String,
        marks: &mut Marks,
        mark_ends: bool,
    ) -> Result<(), TokenizerError> {
        let backend = &self.inner.backend;
        marks.break_spellings(text, |text| backend.control_spans(text))?;
        if mark_ends {
            marks.mark_ends(text, backend.control_spellings().into_iter());
        }
        Ok(())
    }

    /// Returns the text of tokens. Bytes that are not UTF-8 become U+FFFD; ids outside the
    /// vocabulary have no text. `skip_special` leaves out control and unknown tokens.
    pub fn decode(&self, tokens: &[u32], skip_special: bool) -> String {
        let mut detokenizer = self.detokenizer(skip_special);
        let mut text = String::new();
        for &token in tokens {
            text.extend(detokenizer.push(token));
        }
        text.extend(detokenizer.finish());
        text
    }

    /// Returns an incremental detokenizer at the beginning of a text. For text that continues a
    /// prompt, let it [`skip`](Detokenizer::skip) the prompt first.
    pub fn detokenizer(&self, skip_special: bool) -> Detokenizer {
        Detokenizer::new(self.inner.clone(), skip_special)
    }

    /// Returns a token's text as the vocabulary spells it (`Ġthe`, `▁the`, `<0x0A>`).
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.backend.token(id)
    }

    /// Returns the bytes that a token contributes to a text: possibly a part of a character, or
    /// nothing. A SentencePiece token keeps its leading space.
    pub fn token_bytes(&self, id: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.inner.backend.append_bytes(id, &mut bytes);
        bytes
    }

    /// Returns the name of a token as OpenAI's API writes it in log-probabilities: its text, `bytes:\xf0\x9f` if
    /// that is not UTF-8, or the spelling of the vocabulary if it has no text.
    pub fn label(&self, id: u32) -> String {
        match String::from_utf8(self.token_bytes(id)) {
            Ok(text) if text.is_empty() => self.token(id).unwrap_or_else(|| id.to_string()),
            Ok(text) => text,
            Err(error) => {
                let hex = error.as_bytes().iter().map(|byte| format!("\\x{byte:02x}"));
                format!("bytes:{}", hex.collect::<String>())
            }
        }
    }

    /// Returns how many characters begin in a token's text: 0 for special tokens, which answers leave out.
    ///
    /// The sum over an answer's tokens is the length of its text where that is UTF-8.
    pub fn characters(&self, id: u32) -> usize {
        if self.is_special(id) {
            return 0;
        }
        characters_in(&self.token_bytes(id))
    }

    /// Returns the id of a token's text as the vocabulary spells it.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.backend.id(token)
    }

    /// Returns the number of ids, those of added tokens included. A model's logits may be padded
    /// beyond it.
    pub fn vocab_size(&self) -> usize {
        self.inner.backend.vocab_size()
    }

    /// Returns whether an id is a control or unknown token.
    pub fn is_special(&self, id: u32) -> bool {
        self.inner.backend.is_special(id)
    }

    /// Returns whether only a chat template writes an id: control and unknown tokens, also those of gpt-oss that answers
    /// show.
    pub fn is_control(&self, id: u32) -> bool {
        self.inner.backend.is_control(id)
    }

    /// Returns the token that begins a text, if the checkpoint names one.
    pub fn bos(&self) -> Option<u32> {
        self.inner.properties.bos
    }

    /// Returns the token that ends a text, as chat templates write it.
    pub fn eos(&self) -> Option<u32> {
        self.inner.properties.eos
    }

    /// Returns all tokens that end generation: end of text, of turn and of message.
    pub fn end_of_generation(&self) -> &BTreeSet<u32> {
        &self.inner.properties.end_of_generation
    }

    /// Returns whether encoding with `add_special` begins with BOS.
    pub fn adds_bos(&self) -> bool {
        self.inner.properties.adds_bos
    }

    /// Returns the source of a chat template by name; `None` asks for [`DEFAULT_TEMPLATE`].
    pub fn chat_template(&self, name: Option<&str>) -> Option<&str> {
        let name = name.unwrap_or(DEFAULT_TEMPLATE);
        let templates = self.inner.properties.chat_templates.iter();
        let mut found = templates.filter(|(found, _)| found == name);
        found.next().map(|(_, source)| source.as_str())
    }

    /// Returns the names of the chat templates.
    pub fn chat_template_names(&self) -> impl Iterator<Item = &str> {
        let templates = self.inner.properties.chat_templates.iter();
        templates.map(|(name, _)| name.as_str())
    }

    /// Returns the oddities of the checkpoint that were worked around, one message each.
    pub fn warnings(&self) -> &[String] {
        &self.inner.properties.warnings
    }
}

/// Returns how many characters of UTF-8 begin in a part of a text, which may begin or end within one.
pub fn characters_in(bytes: &[u8]) -> usize {
    let begins_one = |byte: &&u8| **byte & 0xc0 != 0x80;
    bytes.iter().filter(begins_one).count()
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Tokenizer")
            .field("vocab_size", &self.vocab_size())
            .field("properties", &self.inner.properties)
            .finish()
    }
}

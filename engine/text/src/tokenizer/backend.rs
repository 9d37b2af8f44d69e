//! What every kind of tokenizer implements, and what a checkpoint says about its tokenizer.

use std::collections::BTreeSet;
use std::ops::Range;

use super::error::TokenizerError;
use super::marks::Marks;
use super::pair::PairTemplate;

/// The name of the chat template that is used unless another one is asked for.
pub const DEFAULT_TEMPLATE: &str = "default";

/// A loaded tokenizer.
pub(crate) struct LoadedTokenizer {
    pub backend: Box<dyn Backend + Send + Sync>,
    pub properties: Properties,
}

/// What a checkpoint says about its tokenizer.
#[derive(Debug, Default)]
pub(crate) struct Properties {
    /// The token that begins a text.
    pub bos: Option<u32>,
    /// The token that ends a text.
    pub eos: Option<u32>,
    /// All tokens that end generation.
    pub end_of_generation: BTreeSet<u32>,
    /// Whether encoding with special tokens begins with BOS.
    pub adds_bos: bool,
    /// Names and sources.
    pub chat_templates: Vec<(String, String)>,
    /// Oddities of the checkpoint that were worked around.
    pub warnings: Vec<String>,
}

/// A kind of tokenizer.
pub(crate) trait Backend {
    /// See [`Tokenizer::encode`](super::Tokenizer::encode).
    fn encode(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<u32>, TokenizerError>;

    /// Returns the template of two texts as one input; `None` if the tokenizer has none.
    fn pair_template(&self) -> Option<PairTemplate>;

    /// Encodes text in which marks break the spelling of control tokens. Spellings without a mark
    /// become control tokens, and the marks are removed from all other text. No special tokens are
    /// added.
    fn encode_marked(&self, text: &str, marks: &Marks) -> Result<Vec<u32>, TokenizerError>;

    /// Returns the byte ranges of a text that would become control tokens if it were encoded with
    /// `parse_special`.
    fn control_spans(&self, text: &str) -> Vec<Range<usize>>;

    /// Returns the texts of all control tokens.
    fn control_spellings(&self) -> Vec<&str>;

    /// Appends the bytes that an id stands for; nothing for an unknown id.
    fn append_bytes(&self, id: u32, out: &mut Vec<u8>);

    /// Returns whether an id is left out when special tokens are skipped.
    fn is_special(&self, id: u32) -> bool;

    /// Returns whether only a chat template writes an id.
    fn is_control(&self, id: u32) -> bool {
        self.is_special(id)
    }

    /// Returns whether a space at the beginning of a decoded text is an artefact of encoding.
    fn strips_first_space(&self) -> bool;

    /// Returns a token's text as the vocabulary spells it.
    fn token(&self, id: u32) -> Option<String>;

    /// Returns the id of a token's text.
    fn id(&self, text: &str) -> Option<u32>;

    /// Returns the number of ids.
    fn vocab_size(&self) -> usize;
}

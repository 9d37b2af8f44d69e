//! Encoding and decoding with a tokenizer from GGUF metadata.

use std::collections::HashSet;

use super::bpe::Bpe;
use super::special_tokens::{Fragment, SpecialTokens};
use super::spm::Spm;
use super::unigram::Unigram;
use super::vocabulary::{SPACE, TokenKind, Vocabulary};
use super::wordpiece::WordPiece;
use crate::tokenizer::backend::Backend;
use crate::tokenizer::byte_level;
use crate::tokenizer::error::TokenizerError;
use crate::tokenizer::marks::Marks;
use crate::tokenizer::pair::PairTemplate;

/// How text without added tokens becomes tokens.
pub enum Algorithm {
    Spm { model: Spm, space_prefix: bool },
    Bpe(Box<Bpe>),
    WordPiece(WordPiece),
    Unigram(Box<Unigram>),
}

/// A tokenizer from GGUF metadata.
pub struct GgufTokenizer {
    pub vocabulary: Vocabulary,
    pub special: SpecialTokens,
    /// The ids of the tokens that only a chat template should write.
    pub control: HashSet<u32>,
    pub algorithm: Algorithm,
    /// The token before a text that is encoded with special tokens.
    pub before: Option<u32>,
    /// The token after such a text.
    pub after: Option<u32>,
}

impl GgufTokenizer {
    /// Appends the tokens of the fragments of a text.
    fn encode_fragments<T: AsRef<str>>(
        &self,
        fragments: Vec<Fragment<T>>,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let mut after_special = true;
        for fragment in fragments {
            let text = match &fragment {
                Fragment::Token(id) => {
                    out.push(*id);
                    after_special = true;
                    continue;
                }
                Fragment::Text(text) => text.as_ref(),
            };
            match &self.algorithm {
                Algorithm::Spm {
                    model,
                    space_prefix,
                } => {
                    let prefix = *space_prefix && after_special;
                    model.encode(&self.vocabulary, text, prefix, out)?;
                }
                Algorithm::Bpe(model) => model.encode(&self.vocabulary, text, out)?,
                Algorithm::WordPiece(model) => model.encode(&self.vocabulary, text, out)?,
                Algorithm::Unigram(model) => model.encode(text, out)?,
            }
            after_special = false;
        }
        Ok(())
    }
}

impl Backend for GgufTokenizer {
    fn encode(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<u32>, TokenizerError> {
        let mut out = Vec::new();
        out.extend(self.before.filter(|_| add_special));
        self.encode_fragments(self.special.split(text, parse_special), &mut out)?;
        out.extend(self.after.filter(|_| add_special));
        Ok(out)
    }

    /// GGUF does not say how texts are paired. The kinds of tokenizers that encoders have are those of
    /// BERT and XLM-RoBERTa.
    fn pair_template(&self) -> Option<PairTemplate> {
        let (before, after) = (self.before?, self.after?);
        match self.algorithm {
            Algorithm::WordPiece(_) => Some(PairTemplate::bert(&[before], &[after])),
            Algorithm::Unigram(_) => Some(PairTemplate::roberta(&[before], &[after])),
            Algorithm::Spm { .. } | Algorithm::Bpe(_) => None,
        }
    }

    fn encode_marked(&self, text: &str, marks: &Marks) -> Result<Vec<u32>, TokenizerError> {
        let mut out = Vec::new();
        self.encode_fragments(self.special.split_marked(text, marks), &mut out)?;
        Ok(out)
    }

    fn control_spans(&self, text: &str) -> Vec<std::ops::Range<usize>> {
        self.special.control_spans(text)
    }

    fn control_spellings(&self) -> Vec<&str> {
        self.special.control_spellings()
    }

    fn append_bytes(&self, id: u32, out: &mut Vec<u8>) {
        let Some(text) = self.vocabulary.text(id) else {
            return;
        };
        let byte_level = matches!(&self.algorithm, Algorithm::Bpe(bpe) if bpe.is_byte_level());
        match self.vocabulary.kind(id) {
            TokenKind::Normal if byte_level => byte_level::decode(text, out),
            TokenKind::Normal => {
                let text = text.replace(SPACE, " ");
                out.extend_from_slice(text.as_bytes());
            }
            TokenKind::Byte(byte) => out.push(byte),
            TokenKind::Unused => {}
            TokenKind::Unknown | TokenKind::Control | TokenKind::UserDefined => {
                out.extend_from_slice(text.as_bytes());
            }
        }
    }

    fn is_special(&self, id: u32) -> bool {
        matches!(
            self.vocabulary.kind(id),
            TokenKind::Control | TokenKind::Unknown
        )
    }

    fn is_control(&self, id: u32) -> bool {
        self.control.contains(&id)
    }

    fn strips_first_space(&self) -> bool {
        match &self.algorithm {
            Algorithm::Spm { space_prefix, .. } => *space_prefix,
            Algorithm::Bpe(_) => false,
            Algorithm::WordPiece(_) | Algorithm::Unigram(_) => true,
        }
    }

    fn token(&self, id: u32) -> Option<String> {
        self.vocabulary.text(id).map(str::to_owned)
    }

    fn id(&self, text: &str) -> Option<u32> {
        self.vocabulary.id(text)
    }

    fn vocab_size(&self) -> usize {
        self.vocabulary.len()
    }
}

//! A tokenizer rebuilt from GGUF metadata, at work.

use super::Backend;
use super::bpe::Bpe;
use super::byte_level;
use super::error::TokenizerError;
use super::special::{Fragment, SpecialTokens};
use super::spm::{SPACE, Spm};
use super::unigram::Unigram;
use super::vocabulary::{TokenKind, Vocabulary};
use super::wordpiece::WordPiece;

/// How text becomes tokens.
pub enum Algorithm {
    Spm { model: Spm, space_prefix: bool },
    Bpe(Box<Bpe>),
    WordPiece(WordPiece),
    Unigram(Box<Unigram>),
}

/// A tokenizer rebuilt from GGUF metadata.
pub struct GgufTokenizer {
    pub vocabulary: Vocabulary,
    pub special: SpecialTokens,
    pub algorithm: Algorithm,
    pub before: Option<u32>,
    pub after: Option<u32>,
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
        let mut after_special = true;
        for fragment in self.special.split(text, parse_special) {
            let text = match fragment {
                Fragment::Token(id) => {
                    out.push(id);
                    after_special = true;
                    continue;
                }
                Fragment::Text(text) => text,
            };
            match &self.algorithm {
                Algorithm::Spm {
                    model,
                    space_prefix,
                } => {
                    let prefix = *space_prefix && after_special;
                    model.encode(&self.vocabulary, text, prefix, &mut out)?;
                }
                Algorithm::Bpe(model) => model.encode(&self.vocabulary, text, &mut out)?,
                Algorithm::WordPiece(model) => model.encode(&self.vocabulary, text, &mut out)?,
                Algorithm::Unigram(model) => model.encode(text, &mut out)?,
            }
            after_special = false;
        }
        out.extend(self.after.filter(|_| add_special));
        Ok(out)
    }

    fn piece(&self, id: u32, out: &mut Vec<u8>) {
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

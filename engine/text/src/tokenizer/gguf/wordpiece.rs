//! WordPiece (BERT) from GGUF metadata, whose tokens begin with `▁` at the start of a word, where
//! BERT's own vocabulary marks the continuation of a word with `##`.

use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::tokenizer::pre_tokenizer::PreTokenizedString;
use tokenizers::{
    NormalizedString, Normalizer as _, OffsetReferential, OffsetType, PreTokenizer as _,
};

use super::vocabulary::{SPACE, Vocabulary};
use crate::tokenizer::error::TokenizerError;

/// A WordPiece model: BERT's normalization, and of several tokens the longest first.
#[derive(Debug)]
pub struct WordPiece {
    normalizer: BertNormalizer,
    unknown: u32,
}

impl WordPiece {
    /// Builds a model; the token `unknown` replaces every word that cannot be split into tokens.
    pub fn new(lowercase: bool, strip_accents: bool, unknown: u32) -> Self {
        Self {
            normalizer: BertNormalizer::new(true, true, Some(strip_accents), lowercase),
            unknown,
        }
    }

    /// Appends the tokens of `text` to `out`.
    pub fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let mut normalized = NormalizedString::from(text);
        self.normalizer
            .normalize(&mut normalized)
            .map_err(TokenizerError::library)?;
        let mut words = PreTokenizedString::from(normalized);
        BertPreTokenizer
            .pre_tokenize(&mut words)
            .map_err(TokenizerError::library)?;
        for (word, _, _) in words.get_splits(OffsetReferential::Normalized, OffsetType::Byte) {
            let start = out.len();
            if !self.encode_word(vocabulary, word, out) {
                out.truncate(start);
                out.push(self.unknown);
            }
        }
        Ok(())
    }

    /// Splits a word into the longest tokens from left to right. Returns false if a part has none.
    fn encode_word(&self, vocabulary: &Vocabulary, word: &str, out: &mut Vec<u32>) -> bool {
        let word = format!("{SPACE}{word}");
        let mut rest = word.as_str();
        while !rest.is_empty() {
            let longest = rest.len().min(vocabulary.longest());
            let found = (1..=longest).rev().find_map(|end| {
                let id = vocabulary.id(rest.get(..end)?)?;
                Some((id, end))
            });
            let Some((id, end)) = found else {
                return false;
            };
            out.push(id);
            rest = &rest[end..];
        }
        true
    }
}

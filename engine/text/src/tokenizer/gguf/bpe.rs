//! BPE from GGUF metadata: on bytes (GPT-2 and most models since), or on plain text with byte tokens
//! (Gemma 4). The `tokenizers` crate does the merging.

use std::collections::HashSet;

use tokenizers::Model as _;
use tokenizers::models::bpe::{BPE, Vocab};

use super::pre_tokenizer::PreTokenizer;
use super::pre_tokenizer_table::PreTokenizerRules;
use super::vocabulary::{SPACE, Vocabulary};
use crate::tokenizer::byte_level;
use crate::tokenizer::error::TokenizerError;

/// A BPE model with its pre-tokenizer.
pub struct Bpe {
    model: BPE,
    pre_tokenizer: PreTokenizer,
    rules: &'static PreTokenizerRules,
}

impl Bpe {
    /// Builds a model from merges of the form `left right`, best first. Returns also the number of
    /// merges that are ignored because they name no token: converters rename some added tokens and
    /// keep their merges.
    pub fn new(
        vocabulary: &Vocabulary,
        merges: &[String],
        rules: &'static PreTokenizerRules,
    ) -> Result<(Self, usize), TokenizerError> {
        let mut seen = HashSet::with_capacity(merges.len());
        let mut pairs = Vec::with_capacity(merges.len());
        let mut ignored = 0;
        for merge in merges {
            let (left, right) = split_merge(merge)?;
            let joined = [left, right].concat();
            let known = [left, right, &joined].map(|text| vocabulary.id(text));
            match known {
                // Of two equal merges the first counts.
                [Some(left_id), Some(right_id), Some(_)] => {
                    if seen.insert((left_id, right_id)) {
                        pairs.push((left.to_owned(), right.to_owned()));
                    }
                }
                _ => ignored += 1,
            }
        }
        if pairs.is_empty() && !merges.is_empty() {
            return Err(TokenizerError::invalid(
                "tokenizer.ggml.merges",
                "pairs of tokens",
                format!("{} pairs that name no token", merges.len()),
            ));
        }
        let ids: Vocab = vocabulary
            .iter()
            .map(|(id, text, _)| (text.to_owned(), id))
            .collect();
        let model = BPE::builder()
            .vocab_and_merges(ids, pairs)
            .ignore_merges(rules.ignore_merges)
            .byte_fallback(!rules.byte_level)
            .build()
            .map_err(TokenizerError::library)?;
        let bpe = Self {
            model,
            pre_tokenizer: PreTokenizer::new(rules)?,
            rules,
        };
        Ok((bpe, ignored))
    }

    /// Appends the tokens of `text` to `out`.
    pub fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let escaped;
        let text = if self.rules.byte_level {
            text
        } else {
            escaped = text.replace(' ', SPACE.encode_utf8(&mut [0; 4]));
            &escaped
        };
        let mut word = String::new();
        for piece in self.pre_tokenizer.split(text) {
            word.clear();
            if self.rules.byte_level {
                byte_level::encode(piece.as_bytes(), &mut word);
            } else {
                word.push_str(piece);
            }
            // A run of newlines is a single token if the vocabulary has it (Gemma 4).
            let newlines = !self.rules.byte_level && piece.bytes().all(|byte| byte == b'\n');
            if let Some(id) = newlines.then(|| vocabulary.id(piece)).flatten() {
                out.push(id);
                continue;
            }
            let tokens = self.model.tokenize(&word);
            let tokens = tokens.map_err(TokenizerError::library)?;
            out.extend(tokens.iter().map(|token| token.id));
        }
        Ok(())
    }

    /// Returns whether tokens are spelled in the byte alphabet.
    pub fn is_byte_level(&self) -> bool {
        self.rules.byte_level
    }
}

/// Returns the halves of a merge, which the first space after the first byte separates.
fn split_merge(merge: &str) -> Result<(&str, &str), TokenizerError> {
    let space = merge.bytes().skip(1).position(|byte| byte == b' ');
    space
        .and_then(|space| Some((merge.get(..space + 1)?, merge.get(space + 2..)?)))
        .filter(|(left, right)| !left.is_empty() && !right.is_empty())
        .ok_or_else(|| {
            TokenizerError::invalid("tokenizer.ggml.merges", "two tokens and a space", merge)
        })
}

//! Byte-level BPE (GPT-2 and nearly everyone since), and BPE on plain text with byte tokens (Gemma
//! 4), from GGUF metadata. The merging is the `tokenizers` crate's.

use std::collections::HashSet;

use tokenizers::Model as _;
use tokenizers::models::bpe::{BPE, Vocab};

use super::byte_level;
use super::error::TokenizerError;
use super::pretokenize::PreTokenizer;
use super::pretokenizers::Rules;
use super::spm::SPACE;
use super::vocabulary::Vocabulary;

/// A BPE model with its pre-tokeniser.
pub struct Bpe {
    model: BPE,
    pre_tokenizer: PreTokenizer,
    rules: &'static Rules,
}

impl Bpe {
    /// `merges` are written `left right`, best first. Gives the number of merges left out because
    /// they name no token: converters rename some added tokens and keep their merges.
    pub fn new(
        vocabulary: &Vocabulary,
        merges: &[String],
        rules: &'static Rules,
    ) -> Result<(Self, usize), TokenizerError> {
        let mut seen = HashSet::with_capacity(merges.len());
        let mut pairs = Vec::with_capacity(merges.len());
        let mut left_out = 0;
        for merge in merges {
            let (left, right) = split_merge(merge)?;
            let joined = [left, right].concat();
            let known = [left, right, &joined].map(|text| vocabulary.id(text));
            match known {
                // The first of two equal merges counts.
                [Some(left_id), Some(right_id), Some(_)] => {
                    if seen.insert((left_id, right_id)) {
                        pairs.push((left.to_owned(), right.to_owned()));
                    }
                }
                _ => left_out += 1,
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
            .map_err(|error| TokenizerError::Library(error.to_string()))?;
        let bpe = Self {
            model,
            pre_tokenizer: PreTokenizer::new(rules)?,
            rules,
        };
        Ok((bpe, left_out))
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
            // A run of newlines is one token if there is one (Gemma 4).
            let newlines = !self.rules.byte_level && piece.bytes().all(|byte| byte == b'\n');
            if let Some(id) = newlines.then(|| vocabulary.id(piece)).flatten() {
                out.push(id);
                continue;
            }
            let tokens = self.model.tokenize(&word);
            let tokens = tokens.map_err(|error| TokenizerError::Library(error.to_string()))?;
            out.extend(tokens.iter().map(|token| token.id));
        }
        Ok(())
    }

    /// Whether tokens are written in the byte alphabet.
    pub fn is_byte_level(&self) -> bool {
        self.rules.byte_level
    }
}

/// The halves of a merge: the first space after the first byte parts them.
fn split_merge(merge: &str) -> Result<(&str, &str), TokenizerError> {
    let space = merge.bytes().skip(1).position(|byte| byte == b' ');
    space
        .and_then(|space| Some((merge.get(..space + 1)?, merge.get(space + 2..)?)))
        .filter(|(left, right)| !left.is_empty() && !right.is_empty())
        .ok_or_else(|| {
            TokenizerError::invalid("tokenizer.ggml.merges", "two tokens and a space", merge)
        })
}

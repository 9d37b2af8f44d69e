//! SentencePiece's unigram model (T5, XLM-R) from GGUF metadata. The `tokenizers` crate searches for
//! the most likely pieces. The normalization by the model's own table is done here, because the
//! crate's implementation trusts that table.

use tokenizers::Model as _;
use tokenizers::models::unigram::Unigram as Model;

use super::charsmap::Charsmap;
use super::vocabulary::{SPACE, TokenKind, Vocabulary};
use crate::tokenizer::error::TokenizerError;

/// The longest text that is searched as one piece, in bytes. The search keeps a node per byte.
const MAX_CHUNK: usize = 1 << 20;

/// A unigram model with its normalization.
pub struct Unigram {
    model: Model,
    normalization: Normalization,
}

/// How a text is prepared for the search.
pub struct Normalization {
    table: Option<Charsmap>,
    prepend_space: bool,
    merge_spaces: bool,
}

impl Normalization {
    /// Reads the table `tokenizer.ggml.precompiled_charsmap`, if the file has one.
    pub fn new(
        table: Option<&[u8]>,
        prepend_space: bool,
        merge_spaces: bool,
    ) -> Result<Self, TokenizerError> {
        Ok(Self {
            table: table.map(Charsmap::new).transpose()?,
            prepend_space,
            merge_spaces,
        })
    }

    /// Replaces what the table replaces, writes [`SPACE`] for spaces, and merges them if asked to.
    fn apply(&self, text: &str) -> Result<String, TokenizerError> {
        let mut out = String::with_capacity(text.len() + 3);
        let mut rest = text;
        let (mut prepended, mut in_word) = (!self.prepend_space, false);
        while let Some(first) = rest.chars().next() {
            let found = self.table.as_ref().map(|table| table.longest(rest));
            let (replacement, length) = match found.transpose()?.flatten() {
                Some(found) => found,
                None => (&rest[..first.len_utf8()], first.len_utf8()),
            };
            for character in replacement.chars() {
                let space = character == ' ';
                if (space && !self.merge_spaces)
                    || (!space && !in_word && (!prepended || self.merge_spaces))
                {
                    out.push(SPACE);
                    prepended |= !space;
                }
                if !space {
                    out.push(character);
                }
                in_word = !space;
            }
            rest = rest.get(length..).unwrap_or_default();
        }
        Ok(out)
    }
}

impl Unigram {
    /// Builds a model; `scores` has one entry per token, and the token `unknown` replaces text
    /// without tokens.
    pub fn new(
        vocabulary: &Vocabulary,
        scores: &[f32],
        unknown: u32,
        normalization: Normalization,
    ) -> Result<Self, TokenizerError> {
        let pieces = vocabulary
            .iter()
            .zip(scores)
            .map(|((id, text, kind), &score)| {
                let score = if score.is_nan() { f32::MIN } else { score };
                match kind {
                    TokenKind::Normal | TokenKind::Unused => (text.to_owned(), f64::from(score)),
                    TokenKind::UserDefined => (text.to_owned(), 0.0),
                    // Normalized text has no plain space, so this never matches.
                    _ => (format!(" {id}"), 0.0),
                }
            });
        let unknown = usize::try_from(unknown).ok();
        let model =
            Model::from(pieces.collect(), unknown, false).map_err(TokenizerError::library)?;
        Ok(Self {
            model,
            normalization,
        })
    }

    /// Appends the tokens of `text` to `out`.
    pub fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let normalized = self.normalization.apply(text)?;
        let mut rest = normalized.as_str();
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(chunk_end(rest));
            let tokens = self.model.tokenize(chunk);
            let tokens = tokens.map_err(TokenizerError::library)?;
            out.extend(tokens.iter().map(|token| token.id));
            rest = after;
        }
        Ok(())
    }
}

/// Returns where to cut a long text: before the last [`SPACE`] that fits, else between characters.
fn chunk_end(text: &str) -> usize {
    if text.len() <= MAX_CHUNK {
        return text.len();
    }
    let end = (0..=MAX_CHUNK)
        .rev()
        .find(|&end| text.is_char_boundary(end));
    let end = end.unwrap_or(text.len());
    text[..end].rfind(SPACE).filter(|&at| at > 0).unwrap_or(end)
}

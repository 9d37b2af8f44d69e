//! SentencePiece's unigram model (T5, XLM-R) from GGUF metadata. The search for the most likely
//! pieces is the `tokenizers` crate's; the normalisation by the model's own table is here, because
//! the crate's trusts that table.

use tokenizers::Model as _;
use tokenizers::models::unigram::Unigram as Model;

use super::error::TokenizerError;
use super::spm::SPACE;
use super::vocabulary::{TokenKind, Vocabulary};

/// The longest text that is searched as one piece, in bytes: the search keeps a node a byte.
const CHUNK: usize = 1 << 20;

/// A unigram model with its normalisation.
pub struct Unigram {
    model: Model,
    table: Option<ReplacementTable>,
    prepend_space: bool,
    merge_spaces: bool,
}

impl Unigram {
    /// `scores` has one entry a token; `table` is `tokenizer.ggml.precompiled_charsmap`.
    pub fn new(
        vocabulary: &Vocabulary,
        scores: &[f32],
        unknown: u32,
        table: Option<&[u8]>,
        prepend_space: bool,
        merge_spaces: bool,
    ) -> Result<Self, TokenizerError> {
        let pieces = vocabulary
            .iter()
            .zip(scores)
            .map(|((id, text, kind), &score)| {
                let score = if score.is_nan() { f32::MIN } else { score };
                match kind {
                    TokenKind::Normal | TokenKind::Unused => (text.to_owned(), f64::from(score)),
                    TokenKind::UserDefined => (text.to_owned(), 0.0),
                    // A plain space never occurs in normalised text, so this never matches.
                    _ => (format!(" {id}"), 0.0),
                }
            });
        let unknown = usize::try_from(unknown).ok();
        let model = Model::from(pieces.collect(), unknown, false)
            .map_err(|error| TokenizerError::Library(error.to_string()))?;
        Ok(Self {
            model,
            table: table.map(ReplacementTable::new).transpose()?,
            prepend_space,
            merge_spaces,
        })
    }

    /// Appends the tokens of `text` to `out`.
    pub fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let normalized = self.normalize(text)?;
        let mut rest = normalized.as_str();
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(chunk_end(rest));
            let tokens = self.model.tokenize(chunk);
            let tokens = tokens.map_err(|error| TokenizerError::Library(error.to_string()))?;
            out.extend(tokens.iter().map(|token| token.id));
            rest = after;
        }
        Ok(())
    }

    /// Replaces by the table, marks spaces and, if asked, merges them.
    fn normalize(&self, text: &str) -> Result<String, TokenizerError> {
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

/// Where to cut a long text: before the last space mark that fits, or at a character.
fn chunk_end(text: &str) -> usize {
    if text.len() <= CHUNK {
        return text.len();
    }
    let end = (0..=CHUNK).rev().find(|&end| text.is_char_boundary(end));
    let end = end.unwrap_or(text.len());
    text[..end].rfind(SPACE).filter(|&at| at > 0).unwrap_or(end)
}

/// SentencePiece's `precompiled_charsmap`: an XOR-compressed double array over byte strings (Kanda,
/// 2018) and the zero-terminated strings that replace them. Little endian.
struct ReplacementTable {
    nodes: Vec<u32>,
    strings: Vec<u8>,
}

impl ReplacementTable {
    fn new(bytes: &[u8]) -> Result<Self, TokenizerError> {
        let parts = bytes.split_first_chunk::<4>().and_then(|(size, rest)| {
            let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
            rest.split_at_checked(size)
        });
        let (nodes, strings) = parts.ok_or_else(|| {
            TokenizerError::invalid(
                "tokenizer.ggml.precompiled_charsmap",
                "a double array with its size before it",
                format!("{} bytes", bytes.len()),
            )
        })?;
        let words = nodes.chunks_exact(4);
        Ok(Self {
            // chunks_exact gives four bytes each.
            nodes: words
                .map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]))
                .collect(),
            strings: strings.to_vec(),
        })
    }

    /// The replacement of the longest prefix of `text` that the table has, and the prefix's length.
    /// A table that cuts a character apart is an error.
    fn longest(&self, text: &str) -> Result<Option<(&str, usize)>, TokenizerError> {
        let mut best = None;
        let mut node = self.base(0)?;
        for (index, byte) in text.bytes().enumerate() {
            node ^= u32::from(byte);
            let unit = self.node(node)?;
            // The label of a node, with the bit that marks values.
            if byte == 0 || unit & 0x8000_00ff != u32::from(byte) {
                break;
            }
            node ^= self.base(node)?;
            if unit & 0x100 != 0 {
                best = Some((self.node(node)? & 0x7fff_ffff, index + 1));
            }
        }
        let Some((offset, length)) = best else {
            return Ok(None);
        };
        let replacement = self
            .string(offset)
            .filter(|_| text.is_char_boundary(length));
        let replacement = replacement.ok_or_else(|| broken("strings"))?;
        Ok(Some((replacement, length)))
    }

    fn node(&self, index: u32) -> Result<u32, TokenizerError> {
        let index = usize::try_from(index).ok();
        let node = index.and_then(|index| self.nodes.get(index).copied());
        node.ok_or_else(|| broken("nodes"))
    }

    fn base(&self, index: u32) -> Result<u32, TokenizerError> {
        let unit = self.node(index)?;
        Ok((unit >> 10) << ((unit & 0x200) >> 6))
    }

    fn string(&self, offset: u32) -> Option<&str> {
        let rest = self.strings.get(usize::try_from(offset).ok()?..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(rest.get(..end)?).ok()
    }
}

fn broken(part: &str) -> TokenizerError {
    TokenizerError::invalid(
        "tokenizer.ggml.precompiled_charsmap",
        format!("{part} inside the table"),
        "a reference past its end",
    )
}

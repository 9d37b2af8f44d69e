//! SentencePiece's normalization table, `precompiled_charsmap`: an XOR-compressed double array over
//! byte strings (Kanda, 2018), and the zero-terminated strings that replace them. Little-endian.

use super::keys::CHARSMAP;
use crate::tokenizer::error::TokenizerError;

/// The longest key in bytes that is looked for. Those of models have some twenty.
const MAX_KEY: usize = 64;

/// How many times longer than its key a replacement may be. The compatibility form of U+FDFA is eleven
/// times as long.
const MAX_GROWTH: usize = 12;

/// A table of byte strings and their replacements.
pub struct Charsmap {
    nodes: Vec<u32>,
    strings: Vec<u8>,
}

impl Charsmap {
    /// Reads a table: the size of the double array in bytes, the double array, and the strings.
    pub fn new(bytes: &[u8]) -> Result<Self, TokenizerError> {
        let parts = bytes.split_first_chunk::<4>().and_then(|(size, rest)| {
            let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
            rest.split_at_checked(size)
        });
        let (nodes, strings) = parts.ok_or_else(|| {
            TokenizerError::invalid(
                CHARSMAP,
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

    /// Returns the replacement of the longest prefix of `text` in the table, and the prefix's length
    /// in bytes.
    ///
    /// # Errors
    ///
    /// If the table refers to something outside of itself, or the prefix ends within a character.
    pub fn longest(&self, text: &str) -> Result<Option<(&str, usize)>, TokenizerError> {
        let mut best = None;
        let mut node = self.base(0)?;
        for (index, byte) in text.bytes().take(MAX_KEY).enumerate() {
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
            .string(offset, length * MAX_GROWTH)
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

    /// Returns a replacement of at most `longest` bytes.
    fn string(&self, offset: u32, longest: usize) -> Option<&str> {
        let rest = self.strings.get(usize::try_from(offset).ok()?..)?;
        let mut bytes = rest.iter().take(longest + 1);
        let end = bytes.position(|&byte| byte == 0)?;
        std::str::from_utf8(rest.get(..end)?).ok()
    }
}

fn broken(part: &str) -> TokenizerError {
    TokenizerError::invalid(
        CHARSMAP,
        format!("{part} inside the table, not far longer than their keys"),
        "others",
    )
}

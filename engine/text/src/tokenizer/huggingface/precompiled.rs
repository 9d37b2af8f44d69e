//! Checks the character map of SentencePiece, which the `tokenizers` crate follows without checks.
//!
//! The map is the length of a double array in bytes, the array of 32-bit units, and the replacements,
//! each of which ends with a zero.

use base64::Engine as _;
use serde_json::Value;

use super::json::invalid;
use crate::tokenizer::error::TokenizerError;

const WHAT: &str = "normalizer Precompiled";

/// How many times longer than its key a replacement may be in bytes.
const MAX_GROWTH: usize = 12;

/// Checks that no text makes the crate read outside of the map, and that no replacement is huge.
pub fn check(json: &Value) -> Result<(), TokenizerError> {
    let wrong = |actual: &str| invalid(WHAT, "a valid precompiled_charsmap", actual);
    let text = json.as_str().ok_or_else(|| wrong("no string"))?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
    let bytes = bytes.map_err(|error| wrong(&error.to_string()))?;
    let (size, rest) = bytes.split_first_chunk().ok_or_else(|| wrong("no size"))?;
    let size = u32::from_le_bytes(*size) as usize / 4 * 4;
    let (array, replacements) = rest
        .split_at_checked(size)
        .ok_or_else(|| wrong("a size too large"))?;
    let array = array.chunks_exact(4).map(|unit| match unit {
        &[a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
        _ => 0,
    });
    let map = CharacterMap {
        array: array.collect(),
        replacements: std::str::from_utf8(replacements).map_err(|_| wrong("no UTF-8"))?,
    };
    map.check().map_err(wrong)
}

struct CharacterMap<'m> {
    array: Vec<usize>,
    replacements: &'m str,
}

impl CharacterMap<'_> {
    /// Walks all states that a key can reach.
    fn check(&self) -> Result<(), &'static str> {
        let root = *self.array.first().ok_or("an empty array")?;
        let mut seen = vec![false; self.array.len()];
        // States and the lengths of their shortest keys; a queue has the shorter ones first.
        let mut open = std::collections::VecDeque::from([(offset(root), 0)]);
        while let Some((state, length)) = open.pop_front() {
            // A state is a block of 256 units, one for each next byte.
            if state | 0xff >= self.array.len() {
                return Err("a state outside of the array");
            }
            if std::mem::replace(&mut seen[state], true) {
                continue;
            }
            for byte in 1..=255 {
                let position = state ^ byte;
                let unit = self.array[position];
                if label(unit) != byte {
                    continue;
                }
                let next = position ^ offset(unit);
                open.push_back((next, length + 1));
                if has_leaf(unit) {
                    let leaf = self.array.get(next).ok_or("a leaf outside of the array")?;
                    self.check_replacement(leaf & 0x7fff_ffff, length + 1)?;
                }
            }
        }
        Ok(())
    }

    fn check_replacement(&self, start: usize, key_length: usize) -> Result<(), &'static str> {
        let text = self.replacements.get(start..);
        let text = text.ok_or("a replacement outside of the text")?;
        // Looks no further than a replacement may be long.
        let longest = key_length * MAX_GROWTH;
        let ends = text.bytes().take(longest + 1).any(|byte| byte == 0);
        match ends || text.len() <= longest {
            true => Ok(()),
            false => Err("a replacement that is far longer than its key"),
        }
    }
}

fn has_leaf(unit: usize) -> bool {
    unit >> 8 & 1 == 1
}

fn label(unit: usize) -> usize {
    unit & (1 << 31 | 0xff)
}

fn offset(unit: usize) -> usize {
    (unit >> 10) << ((unit & 1 << 9) >> 6)
}

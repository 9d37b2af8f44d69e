//! The reader's position in the file, and how much may still follow.

use super::byte_order::ByteOrder;
use crate::error::FormatError;

/// What a [`GgufReader`](super::GgufReader) accepts.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The length of the whole file in bytes, if it is known. The reader then checks that all tensors are
    /// inside the file, and reports a file that is too short as soon as its header shows it.
    pub file_len: Option<u64>,
    /// The longest header accepted, in bytes.
    pub header_bytes: u64,
    /// The longest key and the longest name of a tensor accepted, in bytes.
    pub name_bytes: u64,
    /// The deepest nesting of arrays accepted.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            file_len: None,
            header_bytes: 512 << 20,
            name_bytes: 65_535,
            depth: 8,
        }
    }
}

/// The position of the reader and the encoding of numbers in the file.
#[derive(Debug)]
pub(super) struct Cursor {
    pub limits: Limits,
    /// The number of bytes taken so far.
    pub offset: u64,
    pub version: u32,
    pub order: ByteOrder,
}

impl Cursor {
    /// The size of a count or a length in bytes: version 1 had 32 bits.
    pub fn count_bytes(&self) -> usize {
        if self.version == 1 { 4 } else { 8 }
    }

    /// Checks that `count` items of at least `min_bytes` each can follow, before anything is allocated for
    /// them. `what` names the count, `place` the part of the header.
    ///
    /// # Errors
    ///
    /// If the file or the longest header accepted has no room for them.
    pub fn check_count(
        &self,
        count: u64,
        min_bytes: u64,
        what: &str,
        place: impl Fn() -> String,
    ) -> Result<(), FormatError> {
        let room = self.limits.header_bytes.saturating_sub(self.offset);
        if count > room / min_bytes {
            return Err(FormatError::TooMany {
                what: format!("{what} in {}", place()),
                claimed: count,
                most: room / min_bytes,
            });
        }
        match self.limits.file_len {
            Some(len) if count > len.saturating_sub(self.offset) / min_bytes => {
                Err(FormatError::Truncated {
                    len,
                    inside: place(),
                })
            }
            _ => Ok(()),
        }
    }
}

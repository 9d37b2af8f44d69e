//! Small integers packed into the words or bytes of a tensor.

use std::ops::Range;

use wisp_types::encoding::BLOCK;

use crate::tensor::TensorInfo;

/// The dimension of a matrix along which neighbours share a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    Rows,
    Cols,
}

/// A matrix of unsigned integers of 4 or 8 bits, packed along one dimension.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    pub tensor: TensorInfo,
    /// Bytes of a word: 4 or 1.
    pub word_bytes: u64,
    pub along: Along,
    /// The distances, in words, from a word to the next one along the packed dimension, and along the other.
    pub strides: [u64; 2],
    /// The position in its word of each of the integers that share one, in bits.
    pub shifts: &'static [u32],
    pub mask: u32,
    /// Added to each integer, modulo `mask + 1`.
    pub add: u32,
}

/// The bytes of a [`Packed`] tensor from a word on.
#[derive(Clone, Copy)]
pub(super) struct Words<'a> {
    pub bytes: &'a [u8],
    /// The index of the first word.
    pub first: u64,
}

impl Packed {
    /// Returns the bytes of the tensor that hold some of its rows, of which there are `total`: those rows where they
    /// are contiguous, else all.
    pub fn row_bytes(&self, rows: &Range<u64>, total: u64) -> Range<u64> {
        let row = self.strides[1] * self.word_bytes;
        match self.along {
            Along::Cols if self.tensor.len == row * total => rows.start * row..rows.end * row,
            _ => 0..self.tensor.len,
        }
    }

    /// Returns the words of a range of the tensor's bytes.
    pub fn words<'a>(&self, range: &Range<u64>, bytes: &'a [u8]) -> Words<'a> {
        let first = range.start / self.word_bytes;
        Words { bytes, first }
    }

    /// Returns a word. The sizes of the tensor were checked, so that there is one.
    fn word(&self, words: Words<'_>, index: u64) -> u32 {
        let at = (index.wrapping_sub(words.first)) as usize;
        match self.word_bytes {
            1 => words.bytes.get(at).copied().unwrap_or(0).into(),
            _ => {
                let (words, _) = words.bytes.as_chunks();
                words.get(at).map_or(0, |word| u32::from_le_bytes(*word))
            }
        }
    }

    fn unpack(&self, word: u32, position: usize) -> u8 {
        // At most 8 bits remain.
        ((word >> self.shifts[position]).wrapping_add(self.add) & self.mask) as u8
    }

    /// Returns the integer of a row and column.
    pub fn get(&self, words: Words<'_>, row: u64, col: u64) -> u8 {
        let (packed, other) = match self.along {
            Along::Rows => (row, col),
            Along::Cols => (col, row),
        };
        let per_word = self.shifts.len() as u64;
        let index = packed / per_word * self.strides[0] + other * self.strides[1];
        self.unpack(self.word(words, index), (packed % per_word) as usize)
    }

    /// Returns the integers of 32 neighbouring columns, from a multiple of 32 on.
    pub fn block(&self, words: Words<'_>, row: u64, first: u64) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let per_word = self.shifts.len();
        match self.along {
            Along::Rows => {
                let index = row / per_word as u64 * self.strides[0];
                let position = (row % per_word as u64) as usize;
                for (to, col) in block.iter_mut().zip(first..) {
                    let word = self.word(words, index + col * self.strides[1]);
                    *to = self.unpack(word, position);
                }
            }
            Along::Cols => {
                let start = row * self.strides[1] + first / per_word as u64 * self.strides[0];
                for (i, to) in block.chunks_exact_mut(per_word).enumerate() {
                    let word = self.word(words, start + i as u64 * self.strides[0]);
                    for (position, to) in to.iter_mut().enumerate() {
                        *to = self.unpack(word, position);
                    }
                }
            }
        }
        block
    }
}

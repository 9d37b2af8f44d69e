//! The blocks of files that index ggml's grids (`ggml-common.h`, MIT licence, the ggml authors): from `IQ1`, `IQ2` and
//! `IQ3` to the blocks of [`IQ2`](super::IQ2) and [`IQ3`](super::IQ3).
//!
//! `tests/scripts/grids.py` writes the grids from the Python package `gguf`.

use wisp_types::encoding::{BLOCK, Encoding};

use super::bits::{Integers, pack_1bit, pack_2bit, pack_4bit};

/// Weights of a block of a file.
const WEIGHTS: usize = 256;

/// The grids, an entry in two bytes: 2 bits for each of eight weights, or 3 for each of four.
static GRIDS: &[u8; 2 * 4608] = include_bytes!("grids.bin");

/// The first entry of each grid.
const IQ2_XXS: usize = 0;
const IQ2_XS: usize = 256;
const IQ2_S: usize = 768;
const IQ1: usize = 1792;
const IQ3_XXS: usize = 3840;
const IQ3_S: usize = 4096;

/// Returns an entry of a grid.
fn entry(grid: usize, index: usize) -> u16 {
    let entries = GRIDS.as_chunks().0;
    entries
        .get(grid + index)
        .map_or(0, |entry| u16::from_le_bytes(*entry))
}

/// Returns the signs of eight weights, of which the last makes their number even.
fn even_signs(seven: u32) -> u8 {
    let seven = (seven & 127) as u8;
    seven | (seven.count_ones() as u8 & 1) << 7
}

fn half(bytes: &[u8], index: usize) -> u16 {
    let halves = bytes.as_chunks().0;
    halves
        .get(index)
        .map_or(0, |half| u16::from_le_bytes(*half))
}

fn full(bytes: &[u8], index: usize) -> u32 {
    let words = bytes.as_chunks().0;
    words.get(index).map_or(0, |word| u32::from_le_bytes(*word))
}

/// Returns nibble `i`.
fn nibble(bytes: &[u8], i: usize) -> u8 {
    bytes[i / 2] >> (i % 2 * 4) & 15
}

/// What a block says.
struct Grid {
    d: u16,
    /// The scales of 16 weights each.
    scales: [u8; 16],
    /// The index of each weight's magnitude.
    magnitudes: [u8; WEIGHTS],
    /// 1 for negative weights.
    signs: [u8; WEIGHTS],
}

impl Grid {
    fn new(d: u16) -> Grid {
        Grid {
            d,
            scales: [0; 16],
            magnitudes: [0; WEIGHTS],
            signs: [0; WEIGHTS],
        }
    }

    /// Sets the weights of entry `i`, `COUNT` of `BITS` bits each.
    fn set<const COUNT: usize, const BITS: usize>(&mut self, i: usize, entry: u16, signs: u8) {
        for j in 0..COUNT {
            self.magnitudes[COUNT * i + j] = (entry >> (BITS * j)) as u8 & ((1 << BITS) - 1);
            self.signs[COUNT * i + j] = signs >> j & 1;
        }
    }

    /// Sets the eight weights of an entry of `IQ1`, plus one eighth, or minus it.
    fn set_ternary(&mut self, i: usize, entry: u16, minus: bool) {
        for j in 0..8 {
            let eighths = 8 * (i32::from(entry >> (2 * j) & 3) - 1) + if minus { -1 } else { 1 };
            self.magnitudes[8 * i + j] = match eighths.abs() {
                1 => 0,
                7 => 1,
                _ => 2,
            };
            self.signs[8 * i + j] = (eighths < 0).into();
        }
    }

    fn blocks(&self) -> impl Iterator<Item = (&Integers, &Integers)> {
        let magnitudes = self.magnitudes.as_chunks::<BLOCK>().0;
        magnitudes.iter().zip(self.signs.as_chunks().0)
    }

    /// Appends a block of `IQ2`.
    fn push_iq2(&self, is_iq1: bool, out: &mut Vec<u8>) {
        out.extend(self.d.to_le_bytes());
        out.extend([is_iq1.into(), 0]);
        out.extend(self.scales.as_chunks().0.iter().map(|[a, b]| a | b << 4));
        for (magnitudes, _) in self.blocks() {
            let mut bytes = [0; 8];
            pack_2bit(magnitudes, &mut bytes);
            out.extend(bytes);
        }
        for (_, signs) in self.blocks() {
            let mut bytes = [0; 4];
            pack_1bit(signs, &mut bytes);
            out.extend(bytes);
        }
    }

    /// Appends a block of `IQ3`.
    fn push_iq3(&self, is_xxs: bool, out: &mut Vec<u8>) {
        out.extend(self.d.to_le_bytes());
        out.extend([is_xxs.into(), 0]);
        out.extend((0..4).map(|i| self.scales[4 * i] | self.scales[4 * i + 2] << 4));
        for (magnitudes, signs) in self.blocks() {
            let codes = std::array::from_fn(|i| magnitudes[i] | signs[i] << 3);
            let mut bytes = [0; 16];
            pack_4bit(&codes, &mut bytes);
            out.extend(bytes);
        }
    }
}

/// Returns the blocks of `IQ2` with the weights of a file's blocks, which are `IQ2_XXS`, `IQ2_XS`, `IQ2_S`, `IQ1_S` or
/// `IQ1_M`.
pub(crate) fn iq2_blocks(encoding: Encoding, file: &[u8]) -> Vec<u8> {
    let block_bytes = encoding.file_block_bytes();
    let out_bytes = Encoding::IQ2.file_block_bytes();
    let mut out = Vec::with_capacity(file.len() / block_bytes * out_bytes);
    for block in file.chunks_exact(block_bytes) {
        let is_iq1 = matches!(encoding, Encoding::IQ1_S | Encoding::IQ1_M);
        let grid = match encoding {
            Encoding::IQ2_XXS => iq2_xxs(block),
            Encoding::IQ2_XS => iq2_xs(block),
            Encoding::IQ1_S => iq1_s(block),
            Encoding::IQ1_M => iq1_m(block),
            _ => iq2_s(block),
        };
        grid.push_iq2(is_iq1, &mut out);
    }
    out
}

// Half d; for each 32 weights four indices of a byte, then a word: four times seven signs, and a scale.
fn iq2_xxs(block: &[u8]) -> Grid {
    let (d, rest) = block.split_at(2);
    let mut grid = Grid::new(half(d, 0));
    for (b, part) in rest.chunks_exact(8).enumerate() {
        let word = full(part, 1);
        grid.scales[2 * b..2 * b + 2].fill((word >> 28) as u8);
        for (j, index) in part[..4].iter().enumerate() {
            let entry = entry(IQ2_XXS, (*index).into());
            grid.set::<8, 2>(4 * b + j, entry, even_signs(word >> (7 * j)));
        }
    }
    grid
}

// Half d; for each 8 weights an index of 9 bits and seven signs; nibbles of scales.
fn iq2_xs(block: &[u8]) -> Grid {
    let mut grid = Grid::new(half(block, 0));
    let (indices, scales) = block[2..].split_at(64);
    grid.scales = std::array::from_fn(|i| nibble(scales, i));
    for i in 0..32 {
        let word = half(indices, i);
        let entry = entry(IQ2_XS, (word & 511).into());
        grid.set::<8, 2>(i, entry, even_signs((word >> 9).into()));
    }
    grid
}

// Half d; for each 8 weights the low 8 bits of an index of 10, eight signs, the high bits of indices; nibbles of scales.
fn iq2_s(block: &[u8]) -> Grid {
    let mut grid = Grid::new(half(block, 0));
    let (low, rest) = block[2..].split_at(32);
    let (signs, rest) = rest.split_at(32);
    let (high, scales) = rest.split_at(8);
    grid.scales = std::array::from_fn(|i| nibble(scales, i));
    for i in 0..32 {
        let high = usize::from(high[i / 4] >> (2 * (i % 4)) & 3);
        let entry = entry(IQ2_S, usize::from(low[i]) | high << 8);
        grid.set::<8, 2>(i, entry, signs[i]);
    }
    grid
}

// Half d; for each 8 weights the low 8 bits of an index of 11; for each 32 the high bits, a scale of 3 bits and the sign
// of the offset.
fn iq1_s(block: &[u8]) -> Grid {
    let mut grid = Grid::new(half(block, 0));
    let (low, high) = block[2..].split_at(32);
    for (i, low) in low.iter().enumerate() {
        let word = half(high, i / 4);
        grid.scales[i / 2] = (word >> 12 & 7) as u8;
        let high = usize::from(word >> (3 * (i % 4)) & 7);
        let entry = entry(IQ1, usize::from(*low) | high << 8);
        grid.set_ternary(i, entry, word & 0x8000 != 0);
    }
    grid
}

// For each 8 weights the low 8 bits of an index of 11; for each 8 the high bits and the sign of the offset; four words of
// four scales of 3 bits each, with the four nibbles of d above them.
fn iq1_m(block: &[u8]) -> Grid {
    let (low, rest) = block.split_at(32);
    let (high, scales) = rest.split_at(16);
    let d = (0..4).fold(0, |d, i| d | half(scales, i) >> 12 << (4 * i));
    let mut grid = Grid::new(d);
    grid.scales = std::array::from_fn(|i| (half(scales, i / 4) >> (3 * (i % 4)) & 7) as u8);
    for (i, low) in low.iter().enumerate() {
        let high = nibble(high, i);
        let entry = entry(IQ1, usize::from(*low) | usize::from(high & 7) << 8);
        grid.set_ternary(i, entry, high & 8 != 0);
    }
    grid
}

/// Returns the blocks of `IQ3` with the weights of a file's blocks, which are `IQ3_XXS` or `IQ3_S`.
pub(crate) fn iq3_blocks(encoding: Encoding, file: &[u8]) -> Vec<u8> {
    let block_bytes = encoding.file_block_bytes();
    let out_bytes = Encoding::IQ3.file_block_bytes();
    let mut out = Vec::with_capacity(file.len() / block_bytes * out_bytes);
    for block in file.chunks_exact(block_bytes) {
        let is_xxs = encoding == Encoding::IQ3_XXS;
        let grid = if is_xxs { iq3_xxs(block) } else { iq3_s(block) };
        grid.push_iq3(is_xxs, &mut out);
    }
    out
}

// Half d; for each 4 weights an index of a byte; for each 32 a word: four times seven signs, and a scale.
fn iq3_xxs(block: &[u8]) -> Grid {
    let mut grid = Grid::new(half(block, 0));
    let (indices, words) = block[2..].split_at(64);
    for (i, index) in indices.iter().enumerate() {
        let word = full(words, i / 8);
        grid.scales[i / 4] = (word >> 28) as u8;
        let signs = even_signs(word >> (7 * (i % 8 / 2))) >> (i % 2 * 4);
        grid.set::<4, 3>(i, entry(IQ3_XXS, (*index).into()), signs);
    }
    grid
}

// Half d; for each 4 weights the low 8 bits of an index of 9, then the high bits, the signs; nibbles of scales.
fn iq3_s(block: &[u8]) -> Grid {
    let mut grid = Grid::new(half(block, 0));
    let (low, rest) = block[2..].split_at(64);
    let (high, rest) = rest.split_at(8);
    let (signs, scales) = rest.split_at(32);
    for (i, low) in low.iter().enumerate() {
        grid.scales[i / 4] = nibble(scales, i / 8);
        let high = usize::from(high[i / 8] >> (i % 8) & 1);
        let entry = entry(IQ3_S, usize::from(*low) | high << 8);
        grid.set::<4, 3>(i, entry, signs[i / 2] >> (i % 2 * 4));
    }
    grid
}

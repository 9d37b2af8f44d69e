//! Rows of activations in 8 bits, as `quantize` makes them.

use std::{borrow::Cow, sync::OnceLock};

use super::args::Args;
use super::error::HostError;
use super::quantize::BlockFactors;
use wisp_types::encoding::BLOCK;
#[cfg(doc)]
use wisp_weights::blocks::IntegerSimd;
use wisp_weights::blocks::group_blocks;

/// Bytes of two blocks.
pub(super) type Pair = [u8; 2 * BLOCK];

/// Rows of bytes with the factors of their blocks.
pub(super) struct Rows<'a> {
    /// Rows of whole pairs of blocks, the last padded with zeros.
    bytes: Cow<'a, [Pair]>,
    pub(super) factors: &'a [BlockFactors],
    /// Blocks of a row.
    pub(super) blocks: usize,
    /// Whether each half of a block has a scale.
    halves: bool,
    /// Computed for the first product that reads them: those with few rows.
    groups: OnceLock<Groups>,
}

/// The factors of groups of blocks.
struct Groups {
    /// Groups of a row.
    count: usize,
    /// The scales of blocks, or of their halves, padded with zeros to whole groups.
    scales: Vec<[f32; 16]>,
    /// The sums of the activations of each block or half, likewise: its scale times the sum of its bytes.
    sums: Vec<[f32; 16]>,
}

impl Rows<'_> {
    /// Pairs of blocks in a row.
    fn pairs(&self) -> usize {
        self.blocks.div_ceil(2)
    }

    /// The pairs of blocks of row `i`.
    pub(super) fn bytes(&self, i: usize) -> &[Pair] {
        &self.bytes[i * self.pairs()..][..self.pairs()]
    }

    pub(super) fn row(&self, i: usize) -> Row<'_> {
        let groups = self.groups.get_or_init(|| self.group());
        let count = groups.count;
        Row {
            bytes: self.bytes(i),
            scales: &groups.scales[i * count..][..count],
            sums: &groups.sums[i * count..][..count],
        }
    }

    /// Returns the factors of the groups of all rows.
    fn group(&self) -> Groups {
        let group_blocks = group_blocks(self.halves);
        let count = self.blocks.div_ceil(group_blocks);
        let rows = self.factors.chunks_exact(self.blocks.max(1));
        let mut scales = vec![[0.0; 16]; rows.len() * count];
        let mut sums = scales.clone();
        let groups = rows.flat_map(|factors| factors.chunks(group_blocks));
        for ((factors, scales), sums) in groups.zip(&mut scales).zip(&mut sums) {
            write_factors(factors, self.halves, scales, sums);
        }
        Groups {
            count,
            scales,
            sums,
        }
    }
}

impl<'a> Rows<'a> {
    /// Reads `rows` rows of `cols` elements from a call's bindings, with factors for weights whose halves of blocks have
    /// scales of their own, or do not.
    pub(super) fn read(
        args: &'a Args,
        rows: usize,
        cols: usize,
        halves: bool,
    ) -> Result<Rows<'a>, HostError> {
        let blocks = cols.div_ceil(BLOCK);
        let all = rows.saturating_mul(blocks);
        let bytes: &[[u8; BLOCK]] = args.read(1, all)?;
        let factors: &[BlockFactors] = args.read(4, all)?;
        let bytes = match blocks.is_multiple_of(2) {
            true => Cow::Borrowed(bytes.as_flattened().as_chunks().0),
            false => {
                let mut padded = vec![[0; 2 * BLOCK]; rows * blocks.div_ceil(2)];
                let to = padded.chunks_exact_mut(blocks.div_ceil(2));
                for (to, from) in to.zip(bytes.chunks_exact(blocks)) {
                    let from = from.as_flattened();
                    to.as_flattened_mut()[..from.len()].copy_from_slice(from);
                }
                Cow::Owned(padded)
            }
        };
        Ok(Rows {
            bytes,
            factors,
            blocks,
            halves,
            groups: OnceLock::new(),
        })
    }
}

/// A row of activations in 8 bits.
#[derive(Clone, Copy, Default)]
pub(super) struct Row<'a> {
    /// Its blocks, two at a time.
    pub(super) bytes: &'a [Pair],
    /// For each group of blocks, the scales that [`IntegerSimd::spread`] takes.
    pub(super) scales: &'a [[f32; 16]],
    /// The sums of the activations of each block or half.
    pub(super) sums: &'a [[f32; 16]],
}

/// Writes the scales of a group's blocks, or of their halves, and the sums of their activations.
fn write_factors(
    factors: &[BlockFactors],
    halves: bool,
    scales: &mut [f32; 16],
    sums: &mut [f32; 16],
) {
    for (i, BlockFactors { scale, sums: bytes }) in factors.iter().enumerate() {
        let [low, high] = bytes.map(i32::from);
        if halves {
            (scales[2 * i], scales[2 * i + 1]) = (*scale, *scale);
            (sums[2 * i], sums[2 * i + 1]) = (scale * low as f32, scale * high as f32);
        } else {
            scales[i] = *scale;
            sums[i] = scale * (low + high) as f32;
        }
    }
}

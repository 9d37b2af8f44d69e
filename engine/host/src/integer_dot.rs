//! Products of encoded rows with a few rows of bytes. They are limited by memory bandwidth, so each block is read
//! once, and its integers are multiplied with every row.

use super::dot::{BLOCKS_AHEAD, LANES, MAX_VECTORS, store_totals};
use super::int8_rows::{Pair, Row};
use wisp_weights::blocks::{Floats, IntegerEncoding, IntegerSimd, Planes, Simd, simd};

/// [`dots`] for one encoding.
pub(super) type Dots = fn(Planes, usize, usize, &[Row], &mut [[f32; MAX_VECTORS]]);

simd! {
    /// Computes `out[i][t] = dot(row first + i, x[t])` for at most [`MAX_VECTORS`] rows of `blocks` blocks.
    pub(super) fn dots<E: IntegerEncoding>(
        planes: Planes,
        first: usize,
        blocks: usize,
        x: &[Row],
        out: &mut [[f32; MAX_VECTORS]],
    ) where S: IntegerSimd {
        match *x {
            [] => {}
            [a] => dots_in::<E, S, 1>(planes, first, blocks, [a], out),
            [a, b] => dots_in::<E, S, 2>(planes, first, blocks, [a, b], out),
            // There are no more, and no code for them.
            [..] if MAX_VECTORS == 2 => {}
            [a, b, c] => dots_in::<E, S, 4>(planes, first, blocks, [a, b, c, c], out),
            [a, b, c, d, ..] => dots_in::<E, S, 4>(planes, first, blocks, [a, b, c, d], out),
        }
    }
}

/// The sums of a row's products.
struct Sums<S: IntegerSimd, const T: usize> {
    /// Those of even and of odd pairs of blocks, which do not wait for each other.
    products: [[Floats<S>; 2]; T],
    /// Those of offsets and zero points.
    offsets: [Floats<S>; T],
}

#[inline(always)]
fn dots_in<E: IntegerEncoding, S: IntegerSimd, const T: usize>(
    planes: Planes,
    first: usize,
    blocks: usize,
    x: [Row; T],
    out: &mut [[f32; MAX_VECTORS]],
) {
    for (i, out) in out.chunks_mut(LANES).enumerate() {
        let mut sums = [[S::Floats::splat(0.0); T]; LANES];
        for (lane, sums) in sums.iter_mut().enumerate().take(out.len()) {
            *sums = dot::<E, S, T>(planes, first + i * LANES + lane, blocks, x);
        }
        store_totals::<S::Floats, T>(&sums, out);
    }
}

/// A group of blocks.
struct Group<'a> {
    planes: Planes<'a>,
    /// Index of the group in its row.
    index: usize,
    /// Blocks of the group.
    blocks: usize,
    /// Its bytes in the scales plane.
    scales: &'a [u8],
}

/// Returns the products of a row and each of `x`, as vectors whose elements are yet to be added.
#[inline(always)]
fn dot<E: IntegerEncoding, S: IntegerSimd, const T: usize>(
    planes: Planes,
    row: usize,
    blocks: usize,
    x: [Row; T],
) -> [Floats<S>; T] {
    let [_, _, scales] = planes.bytes();
    let (first, block_bytes) = (row * blocks, [E::MAIN_BYTES, E::HIGH_BYTES]);
    let of_row = planes.blocks(block_bytes, first, blocks);
    // The scales of a row are a whole number of bytes for each block, or for each super-block of 8.
    let scales = &scales[first * E::GROUP_BYTES / E::GROUP_BLOCKS..];
    let mut sums = Sums::<S, T> {
        products: [[S::Floats::splat(0.0); 2]; T],
        offsets: [S::Floats::splat(0.0); T],
    };
    let (groups, rest) = (blocks / E::GROUP_BLOCKS, blocks % E::GROUP_BLOCKS);
    let of_groups = of_row.groups(block_bytes, E::GROUP_BLOCKS);
    for (index, planes) in of_groups.enumerate() {
        planes.prefetch_ahead::<S::Floats>(block_bytes, BLOCKS_AHEAD);
        let scales = &scales[index * E::GROUP_BYTES..][..E::GROUP_BYTES];
        let factors = E::load_factors::<S>(scales);
        let group = Group {
            planes,
            index,
            blocks: E::GROUP_BLOCKS,
            scales,
        };
        sums.add_group::<E>(group, factors, &x);
    }
    if rest > 0 {
        let tail = &scales[groups * E::GROUP_BYTES..];
        // What follows may be the scales of the next row, of which none is to be used, not even times 0.
        let count = rest * if E::HALVES { 2 } else { 1 };
        let factors = match tail.len() < E::GROUP_BYTES {
            false => E::load_factors::<S>(tail),
            true => {
                let mut padded = [0; 64];
                padded[..tail.len()].copy_from_slice(tail);
                E::load_factors::<S>(&padded)
            }
        };
        let factors = [
            S::keep_first(factors[0], count),
            S::keep_first(factors[1], count),
        ];
        let planes = of_row.blocks(block_bytes, groups * E::GROUP_BLOCKS, rest);
        planes.prefetch_ahead::<S::Floats>(block_bytes, BLOCKS_AHEAD);
        let group = Group {
            planes,
            index: groups,
            blocks: rest,
            scales: tail,
        };
        sums.add_group::<E>(group, factors, &x);
    }
    sums.total()
}

impl<S: IntegerSimd, const T: usize> Sums<S, T> {
    /// Adds the products of a group of blocks, given its scales and offsets.
    #[inline(always)]
    fn add_group<E: IntegerEncoding>(
        &mut self,
        group: Group,
        [scales, offsets]: [Floats<S>; 2],
        x: &[Row; T],
    ) {
        let offsets = match E::HAS_OFFSETS {
            true => offsets,
            false => S::Floats::mul(scales, S::Floats::splat(-E::ZERO as f32)),
        };
        let mut factors = [scales; T];
        for t in 0..T {
            let sums = S::Floats::load(&x[t].sums[group.index]);
            self.offsets[t] = S::Floats::mul_add(offsets, sums, self.offsets[t]);
            factors[t] = S::Floats::mul(scales, S::Floats::load(&x[t].scales[group.index]));
        }
        let [main, high, _] = group.planes.bytes();
        let (main_bytes, high_bytes) = (2 * E::MAIN_BYTES, 2 * E::HIGH_BYTES);
        // As many pairs as the group has, so that the indices below need no checks.
        let mut pairs = [&[][..]; T];
        for t in 0..T {
            let of_row = &x[t].bytes[group.index * (E::GROUP_BLOCKS / 2)..];
            pairs[t] = &of_row[..group.blocks.div_ceil(2)];
        }
        // A constant number of turns, so that compilers unroll the loops, or at least the inner one, whose index has to be a
        // constant lest the sums stay in memory.
        for turn in 0..E::GROUP_BLOCKS / 4 {
            for parity in 0..2 {
                let pair = 2 * turn + parity;
                if pair >= group.blocks / 2 {
                    break;
                }
                let q = E::load_integers::<S>(
                    &main[pair * main_bytes..][..main_bytes],
                    &high[pair * high_bytes..][..high_bytes],
                    group.scales,
                );
                for t in 0..T {
                    let factor = spread::<E, S>(factors[t], pair);
                    self.add_pair::<E>(t, q, &pairs[t][pair], factor, parity);
                }
            }
        }
        if group.blocks % 2 == 1 {
            let (mut low, mut top) = ([0; 64], [0; 64]);
            let pair = group.blocks / 2;
            low[..E::MAIN_BYTES].copy_from_slice(&main[pair * main_bytes..]);
            top[..E::HIGH_BYTES].copy_from_slice(&high[pair * high_bytes..]);
            let q = E::load_integers::<S>(&low, &top, group.scales);
            for t in 0..T {
                let factor = spread::<E, S>(factors[t], pair);
                self.add_pair::<E>(t, q, &pairs[t][pair], factor, 0);
            }
        }
    }

    /// Adds the products of a pair of blocks.
    #[inline(always)]
    fn add_pair<E: IntegerEncoding>(
        &mut self,
        t: usize,
        q: S::Bytes,
        x: &Pair,
        factor: Floats<S>,
        parity: usize,
    ) {
        let zero = S::splat_words(0);
        let products = match E::WIDE {
            true => S::dot::<true>(zero, q, S::load_bytes(x)),
            false => S::dot::<false>(zero, q, S::load_bytes(x)),
        };
        let sum = &mut self.products[t][parity];
        *sum = S::Floats::mul_add(S::to_f32(products), factor, *sum);
    }

    /// Returns the sums of products and offsets.
    #[inline(always)]
    fn total(&self) -> [Floats<S>; T] {
        let mut all = self.offsets;
        for (all, [even, odd]) in all.iter_mut().zip(self.products) {
            *all = S::Floats::add(S::Floats::add(even, odd), *all);
        }
        all
    }
}

/// Returns the factors of the words of a pair of blocks.
#[inline(always)]
fn spread<E: IntegerEncoding, S: IntegerSimd>(factors: Floats<S>, pair: usize) -> Floats<S> {
    match E::HALVES {
        true => S::spread::<true>(factors, pair),
        false => S::spread::<false>(factors, pair),
    }
}

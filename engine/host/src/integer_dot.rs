//! Products of encoded rows with a few rows of bytes. They are limited by memory bandwidth, so each block is read
//! once, and its integers are multiplied with every row.

use super::int8::Pair;
use wisp_weights::blocks::{
    Floats, IntegerEncoding, IntegerSimd, Planes, Simd, integer_simd, with_integer_simd,
};

/// A row of activations in 8 bits.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    /// Its blocks, two at a time.
    pub(super) bytes: &'a [Pair],
    /// For each group of blocks, the scales that [`IntegerSimd::spread`] takes.
    pub(super) scales: &'a [[f32; 16]],
    /// The sums of what the blocks, or their halves, stand for.
    pub(super) sums: &'a [[f32; 16]],
}

integer_simd! {
    /// Computes `out[i][t] = dot(row first + i, x[t])` for rows of `blocks` blocks.
    pub(super) fn dots<E: IntegerEncoding, const T: usize>(
        planes: Planes,
        first: usize,
        blocks: usize,
        x: [Row; T],
        out: &mut [[f32; T]],
    ) {
        with_integer_simd!(S => dots_in::<E, S, T>(planes, first, blocks, x, out))
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
    out: &mut [[f32; T]],
) {
    let [main, high, scales] = planes.bytes();
    let pairs = E::GROUP_BLOCKS / 2;
    let (groups, rest) = (blocks / E::GROUP_BLOCKS, blocks % E::GROUP_BLOCKS);
    let (main_bytes, high_bytes) = (2 * E::MAIN_BYTES, 2 * E::HIGH_BYTES);
    // The scales of a row are a whole number of bytes for each block, or for each super-block of 8.
    let scale_bytes = |blocks: usize| blocks * E::GROUP_BYTES / E::GROUP_BLOCKS;
    for (i, out) in out.iter_mut().enumerate() {
        let row = (first + i) * blocks;
        let main = &main[row * E::MAIN_BYTES..][..blocks * E::MAIN_BYTES];
        let high = &high[row * E::HIGH_BYTES..][..blocks * E::HIGH_BYTES];
        let scales = &scales[scale_bytes(row)..][..scale_bytes(blocks)];
        let mut sums = Sums::<S, T> {
            products: [[S::Floats::splat(0.0); 2]; T],
            offsets: [S::Floats::splat(0.0); T],
        };
        for group in 0..groups {
            let main = &main[group * pairs * main_bytes..][..pairs * main_bytes];
            let high = &high[group * pairs * high_bytes..][..pairs * high_bytes];
            let factors = &scales[group * E::GROUP_BYTES..][..E::GROUP_BYTES];
            let factors = sums.add_offsets::<E>(E::load_factors::<S>(factors), &x, group);
            for pair in 0..pairs {
                let q = E::load_integers::<S>(
                    &main[pair * main_bytes..][..main_bytes],
                    &high[pair * high_bytes..][..high_bytes],
                );
                sums.add_pair::<E>(q, &factors, &x, group, pair);
            }
        }
        if rest > 0 {
            let mut padded = [0; 64];
            let tail = &scales[groups * E::GROUP_BYTES..];
            padded[..tail.len()].copy_from_slice(tail);
            let factors = sums.add_offsets::<E>(E::load_factors::<S>(&padded), &x, groups);
            for pair in 0..rest / 2 {
                let at = groups * pairs + pair;
                let q = E::load_integers::<S>(&main[at * main_bytes..], &high[at * high_bytes..]);
                sums.add_pair::<E>(q, &factors, &x, groups, pair);
            }
            if rest % 2 == 1 {
                let (mut low, mut top) = ([0; 64], [0; 64]);
                low[..E::MAIN_BYTES].copy_from_slice(&main[(blocks - 1) * E::MAIN_BYTES..]);
                top[..E::HIGH_BYTES].copy_from_slice(&high[(blocks - 1) * E::HIGH_BYTES..]);
                let q = E::load_integers::<S>(&low, &top);
                sums.add_pair::<E>(q, &factors, &x, groups, rest / 2);
            }
        }
        for (t, out) in out.iter_mut().enumerate() {
            let [even, odd] = sums.products[t];
            let all = S::Floats::add(S::Floats::add(even, odd), sums.offsets[t]);
            *out = S::Floats::reduce_add(all);
        }
    }
}

impl<S: IntegerSimd, const T: usize> Sums<S, T> {
    /// Adds the offsets of a group, and returns the scales of its products.
    #[inline(always)]
    fn add_offsets<E: IntegerEncoding>(
        &mut self,
        [scales, offsets]: [Floats<S>; 2],
        x: &[Row; T],
        group: usize,
    ) -> [Floats<S>; T] {
        let offsets = match E::HAS_OFFSETS {
            true => offsets,
            false => S::Floats::mul(scales, S::Floats::splat(-E::ZERO as f32)),
        };
        let mut factors = [scales; T];
        for t in 0..T {
            let sums = S::Floats::load(&x[t].sums[group]);
            self.offsets[t] = S::Floats::mul_add(offsets, sums, self.offsets[t]);
            factors[t] = S::Floats::mul(scales, S::Floats::load(&x[t].scales[group]));
        }
        factors
    }

    /// Adds the products of pair `pair` of a group.
    #[inline(always)]
    fn add_pair<E: IntegerEncoding>(
        &mut self,
        q: S::Bytes,
        factors: &[Floats<S>; T],
        x: &[Row; T],
        group: usize,
        pair: usize,
    ) {
        for t in 0..T {
            let bytes = &x[t].bytes[group * (E::GROUP_BLOCKS / 2) + pair];
            let zero = S::splat_words(0);
            let products = match E::WIDE {
                true => S::dot::<true>(zero, q, S::load_bytes(bytes)),
                false => S::dot::<false>(zero, q, S::load_bytes(bytes)),
            };
            let factor = match E::HALVES {
                true => S::spread::<true>(factors[t], pair),
                false => S::spread::<false>(factors[t], pair),
            };
            let sum = &mut self.products[t][pair % 2];
            *sum = S::Floats::mul_add(S::to_f32(products), factor, *sum);
        }
    }
}

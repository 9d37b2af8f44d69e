//! Packed blocks as integers, for products with activations in 8 bits.

use super::{
    block_encoding::BlockEncoding,
    codebook::{
        IQ4_NL, IQ4_NL_VALUES, IQ4_XS, MXFP4, MXFP4_VALUES, NVFP4, half_of_power, nvfp4_scales,
    },
    grids::{IQ2, IQ2_VALUES, IQ3, IQ3_VALUES, has_other_values},
    k_quants::{Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, word},
    legacy::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0},
    scales::half_at,
    simd::{IntegerSimd, Simd},
    ternary::TQ2_0,
    zero_points::{UINT4, UINT8, ZeroPoint},
};

/// 16 floats of an instruction set.
pub type Floats<S> = <<S as IntegerSimd>::Floats as Simd>::Floats;

/// The number of blocks of the largest group that shares a call of [`IntegerEncoding::load_factors`].
const GROUP: usize = 16;

/// Returns [`IntegerEncoding::GROUP_BLOCKS`] of an encoding, whose blocks' halves have scales of their own or not.
pub const fn group_blocks(halves: bool) -> usize {
    match halves {
        true => GROUP / 2,
        false => GROUP,
    }
}

/// An encoding whose weights are `scale * (q - ZERO) + offset` with integers `q`, without a sign.
///
/// The scales and offsets are read for a group at once: those of 16 blocks or, where the halves of a block
/// have scales of their own, of 8.
pub trait IntegerEncoding: BlockEncoding {
    /// Bytes of a block in the main plane.
    const MAIN_BYTES: usize;
    /// Bytes of a block in the high plane.
    const HIGH_BYTES: usize = 0;
    /// Bytes of a group in the scales plane: at most 64.
    const GROUP_BYTES: usize;
    /// Whether each half of a block has a scale.
    const HALVES: bool = false;
    /// Whether an integer exceeds 127.
    const WIDE: bool = false;
    /// The integer that stands for the weight 0, where there are no offsets.
    const ZERO: i32 = 0;
    /// Whether there are offsets.
    const HAS_OFFSETS: bool = false;

    /// Blocks of a group.
    const GROUP_BLOCKS: usize = group_blocks(Self::HALVES);

    /// Reads the integers of two blocks from their bytes of the main and high planes. `group` has the bytes of their group in
    /// the scales plane, which tell which grid's values `IQ2` and `IQ3` have; those of the last group may be fewer.
    ///
    /// # Panics
    ///
    /// If there are fewer bytes than those of two blocks.
    fn load_integers<S: IntegerSimd>(main: &[u8], high: &[u8], group: &[u8]) -> S::Bytes;

    /// Reads the scales and offsets of a group from its bytes of the scales plane. Without offsets, the second
    /// result is unspecified.
    ///
    /// # Panics
    ///
    /// If there are fewer than `GROUP_BYTES`.
    fn load_factors<S: IntegerSimd>(scales: &[u8]) -> [Floats<S>; 2];
}

/// Evaluates an expression with a type parameter bound to the [`IntegerEncoding`] of an [`Encoding`](crate::Encoding), or another
/// expression if the encoding has no integers.
#[doc(hidden)]
#[macro_export]
macro_rules! with_integer_encoding {
    ($encoding:expr, $E:ident => $body:expr, else $other:expr) => {
        $crate::blocks::with_integer_encoding!(@ $encoding, $E => $body, $other;
            Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4
            UINT4 UINT8 NVFP4 TQ2_0 IQ2 IQ3)
    };
    (@ $encoding:expr, $E:ident => $body:expr, $other:expr; $($name:ident)*) => {
        match $encoding {
            $($crate::Encoding::$name => {
                type $E = $crate::blocks::$name;
                $body
            })*
            _ => $other,
        }
    };
}
#[doc(hidden)]
pub use with_integer_encoding;

/// Returns the first `N` bytes.
#[inline(always)]
fn first<const N: usize>(bytes: &[u8]) -> &[u8; N] {
    &bytes.as_chunks().0[0]
}

/// Returns the scales of a group whose blocks have one each, in half precision, and no offsets.
#[inline(always)]
fn f16_scales<S: IntegerSimd>(scales: &[u8]) -> [Floats<S>; 2] {
    let scales = S::Floats::load_f16(first(scales));
    [scales, scales]
}

/// Returns the scales, and as offsets the minima, of the two super-blocks of a group of `Q4_K` or `Q5_K`.
#[inline(always)]
fn six_bit_factors<S: IntegerSimd>(scales: &[u8]) -> [Floats<S>; 2] {
    const LOW_PAIRS: [u32; 16] = [0, 2, 4, 6, 8, 10, 12, 14, 0, 2, 4, 6, 8, 10, 12, 14];
    let blocks = [first::<16>(scales), first::<16>(&scales[16..])];
    let scale = six_bits::<S, 16>(blocks, [1, 3], &LOW_PAIRS);
    let minimum = six_bits::<S, 16>(blocks, [2, 3], &HIGH_PAIRS);
    let minus = S::Floats::splat(-1.0);
    let dmin = S::Floats::mul(f16_of_two::<S, 16>(blocks, 2), minus);
    [
        S::Floats::mul(f16_of_two::<S, 16>(blocks, 0), scale),
        S::Floats::mul(dmin, minimum),
    ]
}

/// Returns the scales of a group of `UINT4` or `UINT8`, and as offsets what an integer 0 stands for: minus the zero point,
/// times the scale, which is exact because the scale has room for it.
#[inline(always)]
fn zero_point_factors<S: IntegerSimd, const BITS: u32>(scales: &[u8]) -> [Floats<S>; 2] {
    let words = first::<64>(scales).as_chunks::<4>().0;
    let mut factors = [[0.0; 16]; 2];
    for (i, word) in words.iter().enumerate() {
        let word = ZeroPoint::<BITS>(u32::from_le_bytes(*word));
        factors[0][i] = word.scale();
        factors[1][i] = word.scale() * -(word.zero() as f32);
    }
    [S::Floats::load(&factors[0]), S::Floats::load(&factors[1])]
}

// Functions rather than closures, which are compiled for the caller's instruction set only if they are inlined.

/// Returns numbers of 6 bits of two super-blocks: nibbles of word `low`, and above them pairs of bits of word `top`.
#[inline(always)]
fn six_bits<S: IntegerSimd, const N: usize>(
    [a, b]: [&[u8; N]; 2],
    [low, top]: [usize; 2],
    pairs: &[u32; 16],
) -> Floats<S> {
    let low = S::words_of_two(word(a, low), word(b, low));
    let low = S::mask(S::shift_right(low, &NIBBLES), 15);
    let top = S::words_of_two(word(a, top), word(b, top));
    let top = S::mask(S::shift_right(top, pairs), 3);
    S::to_f32(S::or_shifted_words::<4>(low, top))
}

/// Returns the numbers in half precision at byte `at` of two super-blocks, each eight times.
#[inline(always)]
fn f16_of_two<S: IntegerSimd, const N: usize>([a, b]: [&[u8; N]; 2], at: usize) -> Floats<S> {
    let (a, b) = (
        half_at::<S::Floats, _>(a, at),
        half_at::<S::Floats, _>(b, at),
    );
    S::Floats::load(&[a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b])
}

/// The shifts of the upper eight pairs of bits of two words.
const HIGH_PAIRS: [u32; 16] = [
    16, 18, 20, 22, 24, 26, 28, 30, 16, 18, 20, 22, 24, 26, 28, 30,
];

/// The shifts of the nibbles of two words.
const NIBBLES: [u32; 16] = [0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28];

/// Returns a table of integers to which `zero` is added, so that they have no sign.
const fn unsigned(values: [f32; 16], zero: i32) -> [u8; 16] {
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        table[i] = (values[i] as i32 + zero) as u8;
        i += 1;
    }
    table
}

/// Returns the tables of the integers of both grids.
const fn grid_integers(values: [[f32; 16]; 2], zero: i32) -> [[u8; 16]; 2] {
    [unsigned(values[0], zero), unsigned(values[1], zero)]
}

/// Returns the table of a group's grid.
#[inline(always)]
fn grid_values<'a>([first, other]: &'a [[u8; 16]; 2], group: &[u8]) -> &'a [u8; 16] {
    match has_other_values(group) {
        false => first,
        true => other,
    }
}

/// Returns the scales of a group of `IQ2` or `IQ3`: `d * unit * (2 * n + 1)`, with the nibbles `n` of words from some bit on.
#[inline(always)]
fn odd_scales<S: IntegerSimd>(
    bytes: &[u8],
    unit: f32,
    words: S::Words,
    shifts: &[u32; 16],
) -> [Floats<S>; 2] {
    let d = half_at::<S::Floats, _>(first::<2>(bytes), 0) * unit;
    let n = S::to_f32(S::mask(S::shift_right(words, shifts), 15));
    let odd = S::Floats::mul_add(n, S::Floats::splat(2.0), S::Floats::splat(1.0));
    let scales = S::Floats::mul(S::Floats::splat(d), odd);
    [scales, scales]
}

/// Reads nibbles and the pairs of bits (`high` 8 bytes) or fifth bits (4 bytes) above them.
#[inline(always)]
fn five_bits<S: IntegerSimd>(main: &[u8], high: &[u8]) -> S::Bytes {
    S::or_shifted::<4>(S::unpack_4bit(first(main)), S::unpack_1bit(first(high)))
}

/// Implements [`IntegerEncoding`] with the given constants and functions of the bytes.
macro_rules! integers {
    ($name:ident, $group_bytes:literal { $($constant:ident = $value:expr),* },
        |$main:ident, $high:ident $(, $group:ident)?| $integers:expr, |$scales:ident| $factors:expr) => {
        impl IntegerEncoding for $name {
            const GROUP_BYTES: usize = $group_bytes;
            $(const $constant: integers!(@ $constant) = $value;)*

            #[inline(always)]
            fn load_integers<S: IntegerSimd>($main: &[u8], $high: &[u8], _group: &[u8]) -> S::Bytes {
                $(let $group = _group;)?
                $integers
            }

            #[inline(always)]
            fn load_factors<S: IntegerSimd>($scales: &[u8]) -> [Floats<S>; 2] {
                $factors
            }
        }
    };
    (@ ZERO) => { i32 };
    (@ MAIN_BYTES) => { usize };
    (@ HIGH_BYTES) => { usize };
    (@ $flag:ident) => { bool };
}

integers!(Q4_0, 32 { MAIN_BYTES = 16, ZERO = 8 },
    |main, _high| S::unpack_4bit(first(main)), |scales| f16_scales::<S>(scales));
integers!(Q4_1, 64 { MAIN_BYTES = 16, HAS_OFFSETS = true },
    |main, _high| S::unpack_4bit(first(main)), |scales| S::load_f16_pairs(first(scales)));
integers!(Q5_0, 32 { MAIN_BYTES = 16, HIGH_BYTES = 4, ZERO = 16 },
    |main, high| five_bits::<S>(main, high), |scales| f16_scales::<S>(scales));
integers!(Q5_1, 64 { MAIN_BYTES = 16, HIGH_BYTES = 4, HAS_OFFSETS = true },
    |main, high| five_bits::<S>(main, high), |scales| S::load_f16_pairs(first(scales)));
integers!(Q8_0, 32 { MAIN_BYTES = 32, ZERO = 128, WIDE = true },
    |main, _high| S::flip_signs(S::load_bytes(first(main))), |scales| f16_scales::<S>(scales));
integers!(IQ4_NL, 32 { MAIN_BYTES = 16, ZERO = 127, WIDE = true },
    |main, _high| S::lookup(&const { unsigned(IQ4_NL_VALUES, 127) }, S::unpack_4bit(first(main))),
    |scales| f16_scales::<S>(scales));
integers!(IQ4_XS, 16 { MAIN_BYTES = 16, ZERO = 127, WIDE = true },
|main, high| IQ4_NL::load_integers::<S>(main, high, &[]),
|scales| {
    let blocks = [first::<8>(scales), first::<8>(&scales[8..])];
    let scale = S::Floats::add(six_bits::<S, 8>(blocks, [1, 0], &HIGH_PAIRS), S::Floats::splat(-32.0));
    let scales = S::Floats::mul(f16_of_two::<S, 8>(blocks, 0), scale);
    [scales, scales]
});
integers!(MXFP4, 16 { MAIN_BYTES = 16, ZERO = 12 },
|main, _high| S::lookup(&const { unsigned(MXFP4_VALUES, 12) }, S::unpack_4bit(first(main))),
|scales| {
    let scales = S::Floats::load(&first::<16>(scales).map(half_of_power));
    [scales, scales]
});
integers!(NVFP4, 32 { MAIN_BYTES = 16, HALVES = true, ZERO = 12 },
|main, high| MXFP4::load_integers::<S>(main, high, &[]),
|scales| {
    let pairs = first::<32>(scales).as_chunks::<8>().0;
    let mut of_halves = [0.0; 16];
    for (halves, pair) in of_halves.as_chunks_mut::<4>().0.iter_mut().zip(pairs) {
        *halves = nvfp4_scales(pair);
    }
    let scales = S::Floats::load(&of_halves);
    [scales, scales]
});
integers!(UINT4, 64 { MAIN_BYTES = 16, HAS_OFFSETS = true },
    |main, _high| S::unpack_4bit(first(main)), |scales| zero_point_factors::<S, 4>(scales));
integers!(UINT8, 64 { MAIN_BYTES = 32, WIDE = true, HAS_OFFSETS = true },
    |main, _high| S::flip_signs(S::load_bytes(first(main))), |scales| zero_point_factors::<S, 8>(scales));
integers!(TQ2_0, 4 { MAIN_BYTES = 8, ZERO = 1 },
|main, _high| S::unpack_2bit(first(main)),
|scales| {
    let blocks = [first::<2>(scales), first::<2>(&scales[2..])];
    let scales = f16_of_two::<S, 2>(blocks, 0);
    [scales, scales]
});
integers!(Q2_K, 20 { MAIN_BYTES = 8, HALVES = true, HAS_OFFSETS = true },
|main, _high| S::unpack_2bit(first(main)),
|scales| {
    let both = S::widen(first(&scales[4..]));
    let bytes = first::<4>(scales);
    let d = half_at::<S::Floats, _>(bytes, 0);
    let dmin = half_at::<S::Floats, _>(bytes, 2);
    [
        S::Floats::mul(S::Floats::splat(d), S::to_f32(S::mask(both, 15))),
        S::Floats::mul(S::Floats::splat(-dmin), S::to_f32(S::shift_right(both, &[4; 16]))),
    ]
});
integers!(Q3_K, 16 { MAIN_BYTES = 8, HIGH_BYTES = 4, HALVES = true, ZERO = 4 },
|main, high| S::or_shifted::<2>(S::unpack_2bit(first(main)), S::unpack_1bit(first(high))),
|scales| {
    const PAIRS: [u32; 16] = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30];
    let bytes = first::<16>(scales);
    let low = S::words_of_two(word(bytes, 1), word(bytes, 2));
    let top = S::words_of_two(word(bytes, 3), word(bytes, 3));
    let bits = S::or_shifted_words::<4>(
        S::mask(S::shift_right(low, &NIBBLES), 15),
        S::mask(S::shift_right(top, &PAIRS), 3),
    );
    let scale = S::Floats::add(S::to_f32(bits), S::Floats::splat(-32.0));
    let d = half_at::<S::Floats, _>(bytes, 0);
    let scales = S::Floats::mul(S::Floats::splat(d), scale);
    [scales, scales]
});
integers!(Q4_K, 32 { MAIN_BYTES = 16, HAS_OFFSETS = true },
    |main, _high| S::unpack_4bit(first(main)), |scales| six_bit_factors::<S>(scales));
integers!(Q5_K, 32 { MAIN_BYTES = 16, HIGH_BYTES = 4, HAS_OFFSETS = true },
    |main, high| five_bits::<S>(main, high), |scales| six_bit_factors::<S>(scales));
integers!(Q6_K, 20 { MAIN_BYTES = 16, HIGH_BYTES = 8, HALVES = true, ZERO = 32 },
|main, high| S::or_shifted::<4>(S::unpack_4bit(first(main)), S::unpack_2bit(first(high))),
|scales| {
    let d = half_at::<S::Floats, _>(first::<4>(scales), 0);
    let scale = S::to_f32(S::widen_signed(first(&scales[4..])));
    let scales = S::Floats::mul(S::Floats::splat(d), scale);
    [scales, scales]
});

integers!(IQ2, 12 { MAIN_BYTES = 8, HIGH_BYTES = 4, HALVES = true, ZERO = 64 },
|main, high, group| {
    let codes = S::or_shifted::<2>(S::unpack_2bit(first(main)), S::unpack_1bit(first(high)));
    S::lookup(grid_values(&const { grid_integers(IQ2_VALUES, 64) }, group), codes)
},
|scales| {
    let bytes = first::<12>(scales);
    odd_scales::<S>(bytes, 0.125, S::words_of_two(word(bytes, 1), word(bytes, 2)), &NIBBLES)
});
// The same scale for both halves of a block, so that a group is one super-block, which has one table of values.
integers!(IQ3, 8 { MAIN_BYTES = 16, HALVES = true, ZERO = 32 },
|main, _high, group| {
    S::lookup(grid_values(&const { grid_integers(IQ3_VALUES, 32) }, group), S::unpack_4bit(first(main)))
},
|scales| {
    const TWICE: [u32; 16] = [0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28];
    let bytes = first::<8>(scales);
    odd_scales::<S>(bytes, 0.5, S::words_of_two(word(bytes, 1), word(bytes, 1)), &TWICE)
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        blocks::{Portable, with_encoding},
        encodings::{dequantize, repack_rows},
    };
    use wisp_types::{Encoding, encoding::BLOCK};

    fn check<E: IntegerEncoding>() {
        let (rows, cols) = (1, 1024);
        let file = crate::encodings::tests::random_file(E::ENCODING, rows, cols, 5);
        let weights = dequantize(E::ENCODING, &file, rows, cols).unwrap();
        let planes = repack_rows(E::ENCODING, &file, rows, cols).unwrap();
        let blocks = cols / BLOCK;
        assert_eq!(planes[0].len(), blocks * E::MAIN_BYTES);
        assert_eq!(planes[1].len(), blocks * E::HIGH_BYTES);
        let groups = blocks / E::GROUP_BLOCKS;
        // Planes are padded.
        assert_eq!(
            planes[2].len(),
            (groups * E::GROUP_BYTES).next_multiple_of(16)
        );
        let per_block = if E::HALVES { 2 } else { 1 };
        for block in (0..blocks).step_by(2) {
            let group = block / E::GROUP_BLOCKS;
            let bytes = &planes[2][group * E::GROUP_BYTES..];
            let [scales, offsets] = E::load_factors::<Portable>(bytes);
            let main = &planes[0][block * E::MAIN_BYTES..];
            let high = &planes[1][block * E::HIGH_BYTES..];
            let q = E::load_integers::<Portable>(main, high, bytes);
            for (i, q) in q.into_iter().enumerate() {
                assert!(E::WIDE || q <= 127, "{}", E::ENCODING);
                let of_group = (block - group * E::GROUP_BLOCKS) * BLOCK + i;
                let at = of_group * per_block / BLOCK;
                let offset = if E::HAS_OFFSETS { offsets[at] } else { 0.0 };
                let weight = scales[at] * (i32::from(q) - E::ZERO) as f32 + offset;
                let expected = weights[block * BLOCK + i];
                let equal = weight.to_bits() == expected.to_bits() || weight == expected;
                let both_nan = weight.is_nan() && expected.is_nan();
                // Random scales in single precision may be so large that an offset is infinite.
                let overflows = E::HAS_OFFSETS && !offsets[at].is_finite();
                assert!(
                    equal || both_nan || overflows,
                    "{} {i}: {weight} {expected}",
                    E::ENCODING
                );
            }
        }
        // The encoding as a value leads to this type.
        with_encoding!(E::ENCODING, F => assert_eq!(F::ENCODING, E::ENCODING));
    }

    #[test]
    fn integers_scales_and_offsets_give_the_weights() {
        let mut checked = 0;
        for encoding in Encoding::device_encodings() {
            with_integer_encoding!(encoding, E => {
                check::<E>();
                checked += 1;
            }, else {});
        }
        assert_eq!(checked, 19);
    }
}

//! Blocks of 32 with one scale: `Q4_0`, `Q4_1`, `Q5_0`, `Q5_1`, `Q8_0`.
//!
//! In a file: half `d`, then (`_1`) half `m`, then (`Q5`) the fifth bits as one `u32`, bit `i` of
//! weight `i`, then the nibbles, which are packed as they stand.

use super::unpack::{Quants, affine, affine_nibbles, half_at, pack_bits, symmetric, table};
use super::{BlockEncoding, Planes, Simd};
use wisp_types::encoding::Encoding;

/// What a nibble of `Q4_0` is worth.
const Q4_0_VALUES: [f32; 16] = [
    -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0,
];

/// Nibbles with their fifth bits.
#[inline(always)]
fn five_bits<S: Simd>(planes: Planes, block: usize) -> S::Bytes {
    let low = S::unpack_4bit(planes.main(block));
    S::or_shifted::<4>(low, S::unpack_1bit(planes.high(block)))
}

/// Halves as floats.
#[inline(always)]
fn halves<S: Simd>(from: &[[u8; 2]], to: &mut [f32]) {
    let (vectors, rest) = from.as_chunks::<16>();
    let (to_vectors, to_rest) = to.as_chunks_mut::<16>();
    for (from, to) in vectors.iter().zip(to_vectors) {
        S::store(S::load_f16(bytemuck::cast_ref(from)), to);
    }
    for (from, to) in rest.iter().zip(to_rest) {
        *to = half_at::<S, _>(from, 0);
    }
}

/// Reads one scale a block.
#[inline(always)]
pub(super) fn scales<S: Simd>(planes: Planes, first: usize, factors: &mut [f32]) {
    halves::<S>(planes.many_scales::<2>(first, factors.len()), factors);
}

/// Reads one scale and one minimum a block.
#[inline(always)]
fn scales_and_minima<S: Simd>(planes: Planes, first: usize, factors: &mut [[f32; 2]]) {
    let pairs = planes.many_scales::<4>(first, factors.len());
    let (halves_of_pairs, _) = pairs.as_flattened().as_chunks();
    halves::<S>(halves_of_pairs, factors.as_flattened_mut());
}

/// Packs the fifth bits of a file's block, which are its four bytes from `at`.
fn pack_fifth_bits(file: &[u8], at: usize, high: &mut [u8]) {
    let q: Quants = std::array::from_fn(|i| file[at + i / 8] >> (i % 8));
    pack_bits(&q, high);
}

macro_rules! legacy {
    ($(#[$doc:meta])* $name:ident, $Factor:ty, $pack:expr, $factors:ident, |$S:ident, $planes:ident, $block:ident, $factor:ident| $weights:expr) => {
        $(#[$doc])*
        #[allow(non_camel_case_types)]
        pub struct $name;

        impl BlockEncoding for $name {
            const ENCODING: Encoding = Encoding::$name;
            type Scales = $Factor;

            fn pack(file: &[u8], [main, high, scales]: [&mut [u8]; 3]) {
                let pack: fn(&[u8], &mut [u8], &mut [u8], &mut [u8]) = $pack;
                pack(file, main, high, scales);
            }

            #[inline(always)]
            fn load_scales<S: Simd>(planes: Planes, first: usize, factors: &mut [$Factor]) {
                $factors::<S>(planes, first, factors);
            }

            #[inline(always)]
            fn load_weights<$S: Simd>(
                $planes: Planes,
                $block: usize,
                $factor: &$Factor,
            ) -> [$S::Floats; 2] {
                $weights
            }
        }
    };
}

legacy!(
    /// 4 bits: `d * (q - 8)`.
    Q4_0, f32,
    |file, main, _, scales| {
        scales.copy_from_slice(&file[..2]);
        main.copy_from_slice(&file[2..]);
    },
    scales,
    |S, planes, block, d| table::<S>(&Q4_0_VALUES, planes.main(block), *d)
);

legacy!(
    /// 4 bits: `d * q + m`.
    Q4_1, [f32; 2],
    |file, main, _, scales| {
        scales.copy_from_slice(&file[..4]);
        main.copy_from_slice(&file[4..]);
    },
    scales_and_minima,
    |S, planes, block, f| affine_nibbles::<S>(planes.main(block), f[0], f[1])
);

legacy!(
    /// 5 bits: `d * (q - 16)`.
    Q5_0, f32,
    |file, main, high, scales| {
        scales.copy_from_slice(&file[..2]);
        pack_fifth_bits(file, 2, high);
        main.copy_from_slice(&file[6..]);
    },
    scales,
    |S, planes, block, d| symmetric::<S>(five_bits::<S>(planes, block), 16, [*d, *d])
);

legacy!(
    /// 5 bits: `d * q + m`.
    Q5_1, [f32; 2],
    |file, main, high, scales| {
        scales.copy_from_slice(&file[..4]);
        pack_fifth_bits(file, 4, high);
        main.copy_from_slice(&file[8..]);
    },
    scales_and_minima,
    |S, planes, block, f| affine::<S>(five_bits::<S>(planes, block), [f[0]; 2], [f[1]; 2])
);

legacy!(
    /// 8 bits: `d * q`.
    Q8_0, f32,
    |file, main, _, scales| {
        scales.copy_from_slice(&file[..2]);
        main.copy_from_slice(&file[2..]);
    },
    scales,
    |S, planes, block, d| {
        let q = S::i8_to_f32(S::load_bytes(planes.main(block)));
        [S::mul(q[0], S::splat(*d)), S::mul(q[1], S::splat(*d))]
    }
);

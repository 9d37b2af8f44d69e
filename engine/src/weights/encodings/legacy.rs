//! Blocks of 32 with one scale: `Q4_0`, `Q4_1`, `Q5_0`, `Q5_1`, `Q8_0`.
//!
//! In a file: half `d`, then (`_1`) half `m`, then (`Q5`) the fifth bits as one `u32`, bit `i` of
//! weight `i`, then the nibbles, which are packed as they stand.

use super::unpack::{Quants, bits, f16_at, nibbles, pack_bits};
use super::{Packed, Planes};
use crate::weights::encoding::{BLOCK, Encoding};

/// `d * (q - OFFSET)`.
#[inline(always)]
fn symmetric<const OFFSET: i32>(q: Quants, d: f32) -> [f32; BLOCK] {
    let mut w = [0.0; BLOCK];
    for i in 0..BLOCK {
        w[i] = (i32::from(q[i]) - OFFSET) as f32 * d;
    }
    w
}

/// `d * q + m`.
#[inline(always)]
fn affine(q: Quants, [d, m]: [f32; 2]) -> [f32; BLOCK] {
    let mut w = [0.0; BLOCK];
    for i in 0..BLOCK {
        w[i] = f32::from(q[i]) * d + m;
    }
    w
}

/// Nibbles with their fifth bits.
#[inline(always)]
fn five_bits(planes: Planes, block: usize) -> Quants {
    let low = nibbles(planes.main(block));
    let high = bits(planes.high(block));
    let mut q = [0; BLOCK];
    for i in 0..BLOCK {
        q[i] = low[i] | (high[i] << 4);
    }
    q
}

/// Reads one scale a block.
#[inline(always)]
fn scales(planes: Planes, first: usize, factors: &mut [f32]) {
    for (i, factor) in factors.iter_mut().enumerate() {
        *factor = f16_at::<2>(planes.scales(first + i), 0);
    }
}

/// Reads one scale and one minimum a block.
#[inline(always)]
fn scales_and_minima(planes: Planes, first: usize, factors: &mut [[f32; 2]]) {
    for (i, factor) in factors.iter_mut().enumerate() {
        let pair: &[u8; 4] = planes.scales(first + i);
        *factor = [f16_at(pair, 0), f16_at(pair, 2)];
    }
}

/// Packs the fifth bits of a file's block, which are its four bytes from `at`.
fn pack_fifth_bits(file: &[u8], at: usize, high: &mut [u8]) {
    let q: Quants = std::array::from_fn(|i| file[at + i / 8] >> (i % 8));
    pack_bits(&q, high);
}

macro_rules! legacy {
    ($(#[$doc:meta])* $name:ident, $Factor:ty, $pack:expr, $factors:ident, $weights:expr) => {
        $(#[$doc])*
        #[allow(non_camel_case_types)]
        pub struct $name;

        impl Packed for $name {
            const ENCODING: Encoding = Encoding::$name;
            type Factor = $Factor;

            fn pack(file: &[u8], [main, high, scales]: [&mut [u8]; 3]) {
                let pack: fn(&[u8], &mut [u8], &mut [u8], &mut [u8]) = $pack;
                pack(file, main, high, scales);
            }

            #[inline(always)]
            fn factors(planes: Planes, first: usize, factors: &mut [$Factor]) {
                $factors(planes, first, factors);
            }

            #[inline(always)]
            fn weights(planes: Planes, block: usize, factor: $Factor) -> [f32; BLOCK] {
                $weights(planes, block, factor)
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
    |planes: Planes, block, d| symmetric::<8>(nibbles(planes.main(block)), d)
);

legacy!(
    /// 4 bits: `d * q + m`.
    Q4_1, [f32; 2],
    |file, main, _, scales| {
        scales.copy_from_slice(&file[..4]);
        main.copy_from_slice(&file[4..]);
    },
    scales_and_minima,
    |planes: Planes, block, factor| affine(nibbles(planes.main(block)), factor)
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
    |planes, block, d| symmetric::<16>(five_bits(planes, block), d)
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
    |planes, block, factor| affine(five_bits(planes, block), factor)
);

legacy!(
    /// 8 bits: `d * q`.
    Q8_0, f32,
    |file, main, _, scales| {
        scales.copy_from_slice(&file[..2]);
        main.copy_from_slice(&file[2..]);
    },
    scales,
    |planes: Planes, block, d| {
        let q: &[u8; BLOCK] = planes.main(block);
        let mut w = [0.0; BLOCK];
        for i in 0..BLOCK {
            w[i] = f32::from(q[i] as i8) * d;
        }
        w
    }
);

//! Unquantised encodings: `F32`, `F16`, `BF16`.

use super::unpack::f16_to_f32;
use super::{Packed, Planes};
use crate::weights::encoding::{BLOCK, Encoding};

/// Copies rows, each padded with zeros to whole blocks.
pub(super) fn pad_rows(encoding: Encoding, file: &[u8], cols: usize, main: &mut [u8]) {
    let row = cols * encoding.file_block_bytes();
    let padded = cols.next_multiple_of(BLOCK) * encoding.file_block_bytes();
    if row == 0 {
        return;
    }
    for (from, to) in file.chunks_exact(row).zip(main.chunks_exact_mut(padded)) {
        let (weights, padding) = to.split_at_mut(row);
        weights.copy_from_slice(from);
        padding.fill(0);
    }
}

macro_rules! float {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, $convert:expr) => {
        $(#[$doc])*
        pub struct $name;

        impl Packed for $name {
            const ENCODING: Encoding = Encoding::$name;
            type Factor = ();

            fn pack(file: &[u8], [main, ..]: [&mut [u8]; 3]) {
                main.copy_from_slice(file);
            }

            #[inline(always)]
            fn factors(_: Planes, _: usize, _: &mut [()]) {}

            #[inline(always)]
            fn weights(planes: Planes, block: usize, (): ()) -> [f32; BLOCK] {
                let (values, _) = planes.main::<{ $bytes * BLOCK }>(block).as_chunks::<$bytes>();
                let mut w = [0.0; BLOCK];
                for i in 0..BLOCK {
                    w[i] = $convert(values[i]);
                }
                w
            }
        }
    };
}

float!(
    /// IEEE single precision.
    F32, 4, f32::from_le_bytes
);
float!(
    /// IEEE half precision.
    F16, 2, |bytes| f16_to_f32(u16::from_le_bytes(bytes))
);
float!(
    /// The upper half of a single.
    BF16, 2, |bytes| f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
);

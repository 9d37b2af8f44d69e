//! Unquantised encodings: `F32`, `F16`, `BF16`.

use super::{BlockEncoding, Planes, Simd};
use wisp_types::encoding::{BLOCK, Encoding};

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
    ($(#[$doc:meta])* $name:ident, $bytes:literal, |$S:ident, $half:ident| $load:expr) => {
        $(#[$doc])*
        pub struct $name;

        impl BlockEncoding for $name {
            const ENCODING: Encoding = Encoding::$name;
            type Scales = ();

            fn pack(file: &[u8], [main, ..]: [&mut [u8]; 3]) {
                main.copy_from_slice(file);
            }

            #[inline(always)]
            fn load_scales<S: Simd>(_: Planes, _: usize, _: &mut [()]) {}

            #[inline(always)]
            fn load_weights<$S: Simd>(planes: Planes, block: usize, (): &()) -> [$S::Floats; 2] {
                let load = |half| {
                    let $half = planes.main::<{ $bytes * BLOCK / 2 }>(2 * block + half);
                    $load
                };
                [load(0), load(1)]
            }
        }
    };
}

float!(
    /// IEEE single precision.
    F32, 4, |S, half| S::load_f32(half)
);
float!(
    /// IEEE half precision.
    F16, 2, |S, half| S::load_f16(half)
);
float!(
    /// The upper half of a single.
    BF16, 2, |S, half| S::load_bf16(half)
);

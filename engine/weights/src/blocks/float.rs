//! Unquantised encodings: `F32`, `F16`, `BF16`.

use wisp_types::encoding::{BLOCK, Encoding};

use super::{block_encoding::BlockEncoding, planes::Planes, simd::Simd};

/// Defines an encoding of `$bytes` bytes for each weight; `$load` loads 16 weights.
macro_rules! float {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, $load:ident) => {
        $(#[$doc])*
        pub struct $name;

        impl BlockEncoding for $name {
            const ENCODING: Encoding = Encoding::$name;
            type Scales = ();

            #[inline(always)]
            fn load_scales<S: Simd>(_: Planes, _: usize, _: &mut [()]) {}

            #[inline(always)]
            fn load_weights<S: Simd>(planes: Planes, block: usize, (): &()) -> [S::Floats; 2] {
                [
                    S::$load(planes.main::<{ $bytes * BLOCK / 2 }>(2 * block)),
                    S::$load(planes.main::<{ $bytes * BLOCK / 2 }>(2 * block + 1)),
                ]
            }
        }
    };
}

float!(
    /// IEEE single precision.
    F32, 4, load_f32
);
float!(
    /// IEEE half precision.
    F16, 2, load_f16
);
float!(
    /// bfloat16: the upper half of a single.
    BF16, 2, load_bf16
);

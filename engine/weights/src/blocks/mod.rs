//! Packed blocks of weights, and the vector code that reads them.
//!
//! **Unstable**: this module is for Wisp's own crates, above all for the host's kernels. Users of weights
//! find what they need in [`encodings`](crate::encodings).
//!
//! A packed weight has up to three planes (main, high, scales), each an array in row-major order with a
//! fixed number of bytes for each block of 32 weights, or for each super-block of 256. The type of an
//! encoding ([`BlockEncoding`]) packs the blocks of a file into planes and reads blocks from planes, on any
//! instruction set ([`Simd`]). All values are ggml's, computed in its order of `f32` operations.

mod bits;
mod block_encoding;
mod codebook;
mod dequantize;
mod dispatch;
mod f8;
mod float;
mod formulas;
mod grid_blocks;
mod grids;
mod integers;
mod k_quants;
mod legacy;
mod planes;
mod scales;
mod simd;
mod ternary;
mod zero_points;

pub use block_encoding::BlockEncoding;
pub(crate) use codebook::NF4_VALUES;
pub use codebook::{IQ4_NL, IQ4_XS, MXFP4, NF4, NVFP4};
pub use dequantize::{SCALES_AHEAD, dequantize_blocks};
pub use dispatch::with_encoding;
pub use f8::F8_E4M3;
pub use float::{BF16, F16, F32};
pub(crate) use grid_blocks::{iq2_blocks, iq3_blocks};
pub use grids::{IQ2, IQ3};
pub use integers::{Floats, IntegerEncoding, group_blocks, with_integer_encoding};
pub use k_quants::{Q2_K, Q3_K, Q4_K, Q5_K, Q6_K};
pub use legacy::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
pub use planes::{Planes, RowPrefetcher, plane_bytes};
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub use simd::Simd128;
#[cfg(target_arch = "x86_64")]
pub use simd::{Avx2, Avx512, Avx512Vnni, AvxVnni};
pub use simd::{Baseline, IntegerSimd, Portable, Simd, simd};
#[cfg(target_arch = "aarch64")]
pub use simd::{Neon, NeonDot, NeonI8mm};
pub use ternary::TQ2_0;
pub(crate) use ternary::tq2_of_tq1;
pub use zero_points::{UINT4, UINT8, ZeroPoint};

//! Compiling functions for several instruction sets, and choosing the best one at run time.

#[cfg(target_arch = "x86_64")]
mod avx2_integers;
#[cfg(target_arch = "x86_64")]
mod avx512_vnni;
mod dispatch;
mod f16;
mod integers;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_integers;
mod ops;
mod portable;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128_integers;
#[cfg(target_arch = "x86_64")]
mod transpose;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "x86_64")]
pub use avx2_integers::AvxVnni;
#[cfg(target_arch = "x86_64")]
pub use avx512_vnni::Avx512Vnni;
pub use dispatch::simd;
pub use integers::IntegerSimd;
#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
#[cfg(target_arch = "aarch64")]
pub use neon_integers::{NeonDot, NeonI8mm};
pub use ops::Simd;
pub use portable::Portable;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub use simd128::Simd128;
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

/// The instruction set that every processor of the target has.
#[cfg(not(any(
    target_arch = "aarch64",
    all(target_arch = "wasm32", target_feature = "simd128")
)))]
pub type Baseline = Portable;

/// The instruction set that every processor of the target has.
#[cfg(target_arch = "aarch64")]
pub type Baseline = Neon;

/// The instruction set that every processor of the target has.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub type Baseline = Simd128;

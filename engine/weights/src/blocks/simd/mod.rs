//! Compiling functions for several instruction sets, and choosing the best one at run time.

#[cfg(target_arch = "x86_64")]
mod avx2_integers;
#[cfg(target_arch = "x86_64")]
mod avx512_vnni;
mod f16;
mod integers;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_integers;
mod ops;
mod portable;
#[cfg(target_arch = "x86_64")]
mod transpose;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "x86_64")]
pub use avx2_integers::AvxVnni;
#[cfg(target_arch = "x86_64")]
pub use avx512_vnni::Avx512Vnni;
pub use integers::{IntegerSimd, integer_simd, with_integer_simd};
#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
#[cfg(target_arch = "aarch64")]
pub use neon_integers::{NeonDot, NeonI8mm};
pub use ops::Simd;
pub use portable::Portable;
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

/// The instruction set that every processor of the target has.
#[cfg(not(target_arch = "aarch64"))]
pub type Baseline = Portable;

/// The instruction set that every processor of the target has.
#[cfg(target_arch = "aarch64")]
pub type Baseline = Neon;

/// Compiles a function for several instruction sets and calls the best one that the CPU has. What the
/// function inlines is compiled for that set too.
#[doc(hidden)]
#[macro_export]
macro_rules! simd {
    ($($function:tt)*) => {
        #[multiversion::multiversion(targets(
            "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma+f16c",
            "x86_64+avx2+fma+f16c"
        ))]
        $($function)*
    };
}
#[doc(hidden)]
pub use simd;

/// Evaluates an expression, in a function of `simd!`, with a type parameter bound to the [`Simd`] of the
/// instruction set that the function is compiled for.
#[doc(hidden)]
#[macro_export]
macro_rules! with_simd {
    ($S:ident => $body:expr) => {
        multiversion::target::match_target! {
            "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma+f16c" => {
                type $S = $crate::blocks::Avx512;
                $body
            },
            "x86_64+avx2+fma+f16c" => {
                type $S = $crate::blocks::Avx2;
                $body
            },
            _ => {
                type $S = $crate::blocks::Baseline;
                $body
            },
        }
    };
}
#[doc(hidden)]
pub use with_simd;

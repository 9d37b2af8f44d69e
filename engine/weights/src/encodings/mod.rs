//! Encodings of weights: from the bytes of a file to packed planes, to `f32`, and back to bytes.
//!
//! A device holds weights in *planes*, of which an encoding has up to three (main, high, scales), each an
//! array in row-major order with a fixed number of bytes for each block of 32 weights, or for each
//! super-block of 256. [`repack_rows`] moves the bits of a file's blocks to planes and loses none.
//! [`dequantize`] computes the weights, with ggml's values in its order of `f32` operations. [`quantize`]
//! encodes weights, rounded as ggml's reference implementation rounds them.
//!
//! ```
//! use wisp_weights::{Encoding, encodings};
//!
//! # fn main() -> Result<(), encodings::EncodingError> {
//! let weights: Vec<f32> = (0..64).map(|i| i as f32 / 8.0).collect();
//! let file = encodings::quantize(Encoding::Q4_0, &weights)?;
//! // Two rows of 32 weights: 16 bytes of nibbles and a half as scale for each.
//! assert_eq!(file.len(), 2 * 18);
//! let [main, high, scales] = encodings::repack_rows(Encoding::Q4_0, &file, 2, 32)?;
//! // Planes are padded to 16 bytes.
//! assert_eq!([main.len(), high.len(), scales.len()], [32, 0, 16]);
//! let rounded = encodings::dequantize(Encoding::Q4_0, &file, 2, 32)?;
//! assert!(weights.iter().zip(&rounded).all(|(a, b)| (a - b).abs() < 0.6));
//! # Ok(())
//! # }
//! ```

mod byte_order;
mod dequantize;
mod quantize;
mod repack;

#[cfg(test)]
pub(crate) mod tests;

pub use byte_order::swap_byte_order;
pub use dequantize::dequantize;
pub use quantize::{QUANTIZABLE, f8_scale, quantize, quantize_f8};
pub use repack::{repack_rows, repack_rows_into};

pub use crate::{blocks::plane_bytes, error::EncodingError};

//! From `f32` to the blocks of a file.

mod f8;
mod k_quants;
mod legacy;
mod rounding;

use half::{bf16, f16};
use wisp_types::encoding::{BLOCK, Encoding};

pub use f8::f8_scale;

use crate::error::EncodingError;

/// The encodings that weights can be quantised to.
pub const QUANTIZABLE: [Encoding; 11] = [
    Encoding::F32,
    Encoding::F16,
    Encoding::BF16,
    Encoding::Q8_0,
    Encoding::Q4_0,
    Encoding::Q4_1,
    Encoding::Q5_0,
    Encoding::Q5_1,
    Encoding::Q4_K,
    Encoding::Q5_K,
    Encoding::Q6_K,
];

/// Encodes rows of whole blocks, little-endian, as a file has them.
///
/// Blocks of 32 weights are rounded as ggml's reference implementation rounds them. For the K-quants, the
/// scale of each sub-block is searched for, as in that implementation. Weights that are not finite result
/// in meaningless blocks: callers who may have such must check for them.
///
/// # Errors
///
/// If the weights are not a whole number of blocks, or the encoding is not in [`QUANTIZABLE`].
///
/// ```
/// use wisp_weights::{Encoding, MemoryWeights, encodings};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let weights: Vec<f32> = (0..64).map(|i| i as f32 / 8.0).collect();
/// let bytes = encodings::quantize(Encoding::Q8_0, &weights)?;
/// assert_eq!(bytes.len(), 2 * 34);
/// let rounded = encodings::dequantize(Encoding::Q8_0, &bytes, 2, 32)?;
/// assert!(weights.iter().zip(&rounded).all(|(a, b)| (a - b).abs() < 0.032));
/// // A session accepts them like those of a file.
/// let mut source = MemoryWeights::default();
/// source.insert_encoded("weight", Encoding::Q8_0, &[2, 32], bytes)?;
/// # Ok(())
/// # }
/// ```
pub fn quantize(encoding: Encoding, weights: &[f32]) -> Result<Vec<u8>, EncodingError> {
    let block = encoding.file_block_weights();
    check_blocks(encoding, weights, block)?;
    let encode: fn(&[f32], &mut Vec<u8>) = match encoding {
        Encoding::F32 => |weights, out| extend(weights, out, f32::to_le_bytes),
        Encoding::F16 => |weights, out| extend(weights, out, |x| f16::from_f32(x).to_le_bytes()),
        Encoding::BF16 => |weights, out| extend(weights, out, |x| bf16::from_f32(x).to_le_bytes()),
        Encoding::Q8_0 => legacy::q8_0,
        Encoding::Q4_0 => legacy::q4_0,
        Encoding::Q4_1 => legacy::q4_1,
        Encoding::Q5_0 => legacy::q5_0,
        Encoding::Q5_1 => legacy::q5_1,
        Encoding::Q4_K => k_quants::q4_k,
        Encoding::Q5_K => k_quants::q5_k,
        Encoding::Q6_K => k_quants::q6_k,
        _ => {
            return Err(EncodingError::NoQuantizer {
                encoding,
                available: &QUANTIZABLE,
            });
        }
    };
    let mut out = Vec::with_capacity(weights.len() / block * encoding.file_block_bytes());
    match encoding.is_float() {
        true => encode(weights, &mut out),
        false => weights
            .chunks_exact(block)
            .for_each(|block| encode(block, &mut out)),
    }
    Ok(out)
}

/// Encodes rows of whole blocks as [`Encoding::F8_E4M3`], with the scale of their tensor ([`f8_scale`]).
/// Weights that are not finite become the largest number.
///
/// # Errors
///
/// If the weights are not a whole number of blocks.
pub fn quantize_f8(weights: &[f32], scale: f32) -> Result<Vec<u8>, EncodingError> {
    let encoding = Encoding::F8_E4M3;
    check_blocks(encoding, weights, BLOCK)?;
    let mut out = Vec::with_capacity(weights.len() / BLOCK * encoding.file_block_bytes());
    f8::f8_e4m3(weights, scale, &mut out);
    Ok(out)
}

fn check_blocks(encoding: Encoding, weights: &[f32], block: usize) -> Result<(), EncodingError> {
    if weights.len().is_multiple_of(block) {
        return Ok(());
    }
    Err(EncodingError::Columns {
        encoding,
        cols: weights.len(),
        multiple: block,
    })
}

/// Appends the bytes of each weight.
fn extend<const N: usize>(weights: &[f32], out: &mut Vec<u8>, to_bytes: impl Fn(f32) -> [u8; N]) {
    let start = out.len();
    out.resize(start + N * weights.len(), 0);
    let (chunks, _) = out[start..].as_chunks_mut::<N>();
    for (bytes, &weight) in chunks.iter_mut().zip(weights) {
        *bytes = to_bytes(weight);
    }
}

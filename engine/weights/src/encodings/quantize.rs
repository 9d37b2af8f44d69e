//! From weights to the blocks of a file: `F32`, `F16`, `BF16`, `Q8_0` and `Q4_0`, rounded as ggml's
//! reference rounds, and the way to the K-quants, which search for their scales.

use half::{bf16, f16};

use super::error::EncodingError;
use super::f8::f8_e4m3;
use super::quantize_k::{q4_k, q6_k};
use wisp_types::{Encoding, encoding::BLOCK};

/// The encodings that weights can be brought to.
pub const QUANTIZABLE: [Encoding; 7] = [
    Encoding::F32,
    Encoding::F16,
    Encoding::BF16,
    Encoding::Q8_0,
    Encoding::Q4_0,
    Encoding::Q4_K,
    Encoding::Q6_K,
];

/// Encodes rows of whole blocks. Numbers that are not finite make blocks without meaning: whoever
/// has such must look for them first.
///
/// # Errors
///
/// If the weights are no whole number of blocks, or the encoding is not in [`QUANTIZABLE`].
///
/// ```
/// use wisp_weights::{Encoding, MemoryWeights, encodings};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let numbers: Vec<f32> = (0..64).map(|i| i as f32 / 8.0).collect();
/// let bytes = encodings::quantize(Encoding::Q8_0, &numbers)?;
/// assert_eq!(bytes.len(), 2 * 34);
/// let back = encodings::dequantize(Encoding::Q8_0, &bytes, 2, 32)?;
/// assert!(numbers.iter().zip(&back).all(|(a, b)| (a - b).abs() < 0.032));
/// // As a file of that encoding would have it, for any session.
/// let mut weights = MemoryWeights::default();
/// weights.insert_encoded("weight", Encoding::Q8_0, &[2, 32], bytes)?;
/// # Ok(())
/// # }
/// ```
pub fn quantize(encoding: Encoding, weights: &[f32]) -> Result<Vec<u8>, EncodingError> {
    let block = encoding.file_block_weights();
    if !weights.len().is_multiple_of(block) {
        return Err(EncodingError::Columns {
            encoding,
            cols: weights.len(),
            multiple: block,
        });
    }
    let encode: fn(&[f32], &mut Vec<u8>) = match encoding {
        Encoding::F32 => |weights, out| out.extend(bytemuck::cast_slice(weights)),
        Encoding::F16 => |weights, out| {
            out.extend(weights.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()));
        },
        Encoding::BF16 => |weights, out| {
            out.extend(
                weights
                    .iter()
                    .flat_map(|&x| bf16::from_f32(x).to_le_bytes()),
            );
        },
        Encoding::Q8_0 => q8_0,
        Encoding::Q4_0 => q4_0,
        Encoding::Q4_K => q4_k,
        Encoding::Q6_K => q6_k,
        _ => return Err(EncodingError::NoQuantizer { encoding }),
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

/// Encodes rows of whole blocks as [`Encoding::F8_E4M3`], by the scale of their tensor
/// ([`f8_scale`](super::f8_scale)). Numbers that are not finite become others.
///
/// # Errors
///
/// If the weights are no whole number of blocks.
pub fn quantize_f8(weights: &[f32], scale: f32) -> Result<Vec<u8>, EncodingError> {
    let encoding = Encoding::F8_E4M3;
    if !weights.len().is_multiple_of(BLOCK) {
        return Err(EncodingError::Columns {
            encoding,
            cols: weights.len(),
            multiple: BLOCK,
        });
    }
    let mut out = Vec::with_capacity(weights.len() / BLOCK * encoding.file_block_bytes());
    f8_e4m3(weights, scale, &mut out);
    Ok(out)
}

/// Appends a half and yields the value that it rounds to.
pub(super) fn push_half(value: f32, out: &mut Vec<u8>) -> f32 {
    let half = f16::from_f32(value);
    out.extend(half.to_le_bytes());
    half.to_f32()
}

/// `1 / x`, or 0 where there is nothing to divide.
pub(super) fn inverse(x: f32) -> f32 {
    if x == 0.0 { 0.0 } else { 1.0 / x }
}

/// The first value of the largest magnitude, with its sign.
pub(super) fn extreme(block: &[f32]) -> f32 {
    let larger = |a: f32, &b: &f32| if b.abs() > a.abs() { b } else { a };
    block.iter().fold(0.0, larger)
}

/// Scales so that the largest magnitude becomes 127. The scale is rounded only in the file.
fn q8_0(block: &[f32], out: &mut Vec<u8>) {
    let d = extreme(block).abs() / 127.0;
    let scale = inverse(d);
    push_half(d, out);
    out.extend(block.iter().map(|&x| (x * scale).round() as i8 as u8));
}

/// Scales so that the extreme becomes -8, which has no positive twin.
fn q4_0(block: &[f32], out: &mut Vec<u8>) {
    let d = extreme(block) / -8.0;
    let scale = inverse(d);
    push_half(d, out);
    let level = |x: f32| (x * scale + 8.5).clamp(0.0, 15.0) as u8;
    let (low, high) = block.split_at(block.len() / 2);
    out.extend(
        low.iter()
            .zip(high)
            .map(|(&a, &b)| level(a) | level(b) << 4),
    );
}

//! Codes in words of 32 bits: GPTQ, AWQ and the packed integers of compressed-tensors.

use wisp_types::Encoding;

use super::{
    assemble::assemble,
    groups::{group_size, groups_of},
};
use crate::{
    error::WeightError,
    quantized::{
        matrix::{Factors, QuantizedMatrix, Zeros},
        packed::{Along, Packed},
        scales::{ScaleType, Scales},
        tensors::Tensors,
    },
    tensor::{StoredEncoding, TensorInfo},
};

/// The positions of integers in their words, in bits.
const NIBBLES: &[u32] = &[0, 4, 8, 12, 16, 20, 24, 28];
const BYTES: &[u32] = &[0, 8, 16, 24];
/// AWQ's order of the nibbles of a word.
const AWQ: &[u32] = &[0, 16, 4, 20, 8, 24, 12, 28];
/// Returns the sizes of a matrix of integers of 32 bits.
fn words(tensors: &Tensors<'_>, info: &TensorInfo) -> Result<[u64; 2], WeightError> {
    match (info.stored, info.shape.as_slice()) {
        (StoredEncoding::Unsupported("I32"), &[rows, cols]) => Ok([rows, cols]),
        _ => Err(tensors.unfit(info, "a matrix of I32")),
    }
}

fn shifts(bits: u64) -> &'static [u32] {
    match bits {
        4 => NIBBLES,
        _ => BYTES,
    }
}

/// Integers in words of 32 bits. `strides` are those of a word along the packed dimension and the other.
fn packed(
    info: &TensorInfo,
    shifts: &'static [u32],
    along: Along,
    strides: [u64; 2],
    add: u32,
) -> Packed {
    Packed {
        tensor: info.clone(),
        word_bytes: 4,
        along,
        strides,
        shifts,
        mask: u32::MAX >> (32 - 32 / shifts.len() as u32),
        add,
    }
}

/// Returns the scales of a tensor `shape`.
fn scales(
    tensors: &Tensors<'_>,
    name: &str,
    shape: [u64; 2],
    (rows, strides): (u64, [u64; 2]),
) -> Result<Scales, WeightError> {
    let tensor = tensors.require(name)?;
    match ScaleType::of(tensor) {
        Some(dtype) if tensor.shape == shape => Ok(Scales {
            tensor: tensor.clone(),
            dtype,
            rows,
            strides,
        }),
        _ => Err(tensors.unfit(tensor, &format!("floats of shape {shape:?}"))),
    }
}

/// GPTQ: words of columns `[cols / per word, rows]`, and of rows for zero points, `[groups, rows / per word]`.
pub(super) fn gptq(
    tensors: &Tensors<'_>,
    base: &str,
    bits: u64,
    zeros_less_one: bool,
) -> Result<QuantizedMatrix, WeightError> {
    let codes = tensors.require(&format!("{base}.qweight"))?;
    let per_word = 32 / bits;
    let [down, rows] = words(tensors, codes)?;
    let cols = down.saturating_mul(per_word);
    let name = format!("{base}.scales");
    let groups = tensors.require(&name)?.shape.first().copied().unwrap_or(0);
    let scales = scales(tensors, &name, [groups, rows], (1, [1, rows]))?;
    let zeros = tensors.require(&format!("{base}.qzeros"))?;
    let across = rows.div_ceil(per_word);
    if words(tensors, zeros)? != [groups, across] {
        return Err(tensors.unfit(zeros, &format!("I32 of shape [{groups}, {across}]")));
    }
    let add = u32::from(zeros_less_one);
    let zeros = packed(zeros, shifts(bits), Along::Rows, [1, across], add);
    let codes = packed(codes, shifts(bits), Along::Cols, [rows, 1], 0);
    let g_idx = tensors.find(&format!("{base}.g_idx"));
    let (group, order) = groups_of(tensors, cols, groups, g_idx)?;
    let factors = Factors::ZeroPoints(scales, Zeros::Packed(zeros));
    let encoding = integers(bits);
    let matrix = assemble(tensors, encoding, [rows, cols], codes, (factors, group))?;
    Ok(QuantizedMatrix { order, ..matrix })
}

fn integers(bits: u64) -> Encoding {
    match bits {
        4 => Encoding::UINT4,
        _ => Encoding::UINT8,
    }
}

/// AWQ: words of rows, `[cols, rows / 8]` and `[groups, rows / 8]`.
pub(super) fn awq(tensors: &Tensors<'_>, base: &str) -> Result<QuantizedMatrix, WeightError> {
    let codes = tensors.require(&format!("{base}.qweight"))?;
    let [cols, across] = words(tensors, codes)?;
    let rows = across.saturating_mul(8);
    let name = format!("{base}.scales");
    let groups = tensors.require(&name)?.shape.first().copied().unwrap_or(0);
    let scales = scales(tensors, &name, [groups, rows], (1, [1, rows]))?;
    let zeros = tensors.require(&format!("{base}.qzeros"))?;
    if words(tensors, zeros)? != [groups, across] {
        return Err(tensors.unfit(zeros, &format!("I32 of shape [{groups}, {across}]")));
    }
    let codes = packed(codes, AWQ, Along::Rows, [1, across], 0);
    let zeros = packed(zeros, AWQ, Along::Rows, [1, across], 0);
    let group = group_size(tensors, cols, groups)?;
    let factors = Factors::ZeroPoints(scales, Zeros::Packed(zeros));
    assemble(
        tensors,
        Encoding::UINT4,
        [rows, cols],
        codes,
        (factors, group),
    )
}

/// compressed-tensors: words of columns `[rows, cols / per word]`, and of rows for zero points, `[rows / per word,
/// groups]`.
pub(super) fn compressed(
    tensors: &Tensors<'_>,
    base: &str,
    codes: &TensorInfo,
    bits: Option<u64>,
) -> Result<QuantizedMatrix, WeightError> {
    let bits = bits.ok_or_else(|| tensors.error("config.json tells no width of packed weights"))?;
    let per_word = 32 / bits;
    let [rows, across] = words(tensors, codes)?;
    let cols = across.saturating_mul(per_word);
    let name = format!("{base}.weight_scale");
    let info = tensors.require(&name)?;
    let dtype = ScaleType::of(info).ok_or_else(|| tensors.unfit(info, "floats"))?;
    let (groups, strides) = match info.shape.as_slice() {
        [] | [1] => (1, [0, 0]),
        &[all] if all == rows => (1, [1, 0]),
        &[all, groups] if all == rows => (groups, [groups, 1]),
        _ => return Err(tensors.unfit(info, &format!("floats of shape [{rows}, groups]"))),
    };
    let scales = Scales {
        tensor: info.clone(),
        dtype,
        rows: 1,
        strides,
    };
    let zeros = match tensors.find(&format!("{base}.weight_zero_point")) {
        None => Zeros::Constant(1 << (bits - 1)),
        Some(zeros) => {
            let down = rows.div_ceil(per_word);
            if words(tensors, zeros)? != [down, groups] {
                return Err(tensors.unfit(zeros, &format!("I32 of shape [{down}, {groups}]")));
            }
            Zeros::Packed(packed(zeros, shifts(bits), Along::Rows, [groups, 1], 0))
        }
    };
    let codes = packed(codes, shifts(bits), Along::Cols, [1, across], 0);
    let g_idx = tensors.find(&format!("{base}.weight_g_idx"));
    let (group, order) = groups_of(tensors, cols, groups, g_idx)?;
    let factors = Factors::ZeroPoints(scales, zeros);
    let matrix = assemble(
        tensors,
        integers(bits),
        [rows, cols],
        codes,
        (factors, group),
    )?;
    Ok(QuantizedMatrix { order, ..matrix })
}

//! Codes of one byte: 8-bit floats, and signed integers.

use wisp_types::Encoding;

use super::{assemble::assemble, groups::group_size};
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

/// A byte by itself.
const BYTE: &[u32] = &[0];
/// Bytes `[rows, cols]`; signed ones become unsigned by adding 128.
fn plain_bytes(info: &TensorInfo, cols: u64) -> Packed {
    let is_signed = info.stored == StoredEncoding::Unsupported("I8");
    Packed {
        tensor: info.clone(),
        word_bytes: 1,
        along: Along::Cols,
        strides: [1, cols],
        shifts: BYTE,
        mask: 0xff,
        add: if is_signed { 128 } else { 0 },
    }
}

/// Codes of one byte: 8-bit floats, or signed integers. Their scales are one, those of rows, or those of blocks.
pub(super) fn matrix(
    tensors: &Tensors<'_>,
    base: &str,
    block: Option<[u64; 2]>,
) -> Result<QuantizedMatrix, WeightError> {
    let weight = tensors.require(&format!("{base}.weight"))?;
    let &[rows, cols] = weight.shape.as_slice() else {
        return Err(tensors.unfit(weight, "a matrix"));
    };
    let inverse = format!("{base}.weight_scale_inv");
    let name = match tensors.find(&inverse) {
        Some(_) => inverse,
        None => format!("{base}.weight_scale"),
    };
    let scale = tensors.require(&name)?;
    let dtype = ScaleType::of(scale).ok_or_else(|| tensors.unfit(scale, "floats"))?;
    let blocks = block.map(|[height, width]| [rows.div_ceil(height), cols.div_ceil(width)]);
    let (height, width, strides) = match (scale.shape.as_slice(), blocks.zip(block)) {
        ([] | [1], _) | ([1, 1], None) => (1, cols, [0, 0]),
        (&[down, across], Some((blocks, [height, width]))) if [down, across] == blocks => {
            (height, width, [across, 1])
        }
        (&[all] | &[all, 1], _) if all == rows => (1, cols, [1, 0]),
        (&[all, groups], _) if all == rows => (1, group_size(tensors, cols, groups)?, [groups, 1]),
        _ => {
            let expected = format!("a scale, {rows} of rows, or those of blocks {block:?}");
            return Err(tensors.unfit(scale, &expected));
        }
    };
    let scales = Scales {
        tensor: scale.clone(),
        dtype,
        rows: height,
        strides,
    };
    let codes = plain_bytes(weight, cols);
    let is_float = weight.stored == StoredEncoding::Unsupported("F8_E4M3");
    let factors = match is_float {
        true => Factors::Scales(scales),
        false => {
            let zeros = byte_zeros(tensors, base, &scales)?;
            Factors::ZeroPoints(scales, zeros)
        }
    };
    let encoding = if is_float {
        Encoding::F8_E4M3
    } else {
        Encoding::UINT8
    };
    assemble(tensors, encoding, [rows, cols], codes, (factors, width))
}

/// The zero points of signed bytes: as many as there are scales.
fn byte_zeros(tensors: &Tensors<'_>, base: &str, scales: &Scales) -> Result<Zeros, WeightError> {
    let Some(zeros) = tensors.find(&format!("{base}.weight_zero_point")) else {
        return Ok(Zeros::Constant(128));
    };
    let is_bytes = zeros.stored == StoredEncoding::Unsupported("I8");
    match is_bytes && zeros.shape == scales.tensor.shape && scales.rows == 1 {
        true => Ok(Zeros::Packed(Packed {
            strides: [scales.strides[1], scales.strides[0]],
            ..plain_bytes(zeros, 0)
        })),
        false => Err(tensors.unfit(zeros, &format!("I8 of shape {:?}", scales.tensor.shape))),
    }
}

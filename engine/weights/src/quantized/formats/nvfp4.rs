//! NVIDIA's NVFP4, as compressed-tensors and ModelOpt store it: bytes with two codes, a scale of 8 bits for each 16
//! columns, and one of the matrix.

use wisp_types::Encoding;

use super::assemble::assemble;
use crate::{
    error::WeightError,
    quantized::{
        matrix::{Factors, QuantizedMatrix},
        packed::{Along, Packed},
        tensor_scales::TensorScales,
        tensors::Tensors,
    },
    tensor::{StoredEncoding, TensorInfo},
};

/// The order of the codes of a byte.
const LOW_FIRST: &[u32] = &[0, 4];

/// How a package stores the scale of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Package {
    /// `code * scale / weight_global_scale`.
    CompressedTensors,
    /// `code * scale * weight_scale_2`.
    ModelOpt,
}

/// Columns that share a scale.
const GROUP: u64 = 16;

/// Tensors of a layer that change what its weight means.
const UNSUPPORTED: [&str; 4] = [
    "weight_zero_point",
    "weight_g_idx",
    "pre_quant_scale",
    "svdquant_lora_a",
];

/// Puts a weight in NVFP4 together.
pub(super) fn matrix(
    tensors: &Tensors<'_>,
    base: &str,
    codes: &TensorInfo,
    package: Package,
) -> Result<QuantizedMatrix, WeightError> {
    refuse_other_parts(tensors, base)?;
    let (StoredEncoding::Unsupported("U8"), &[rows, across]) =
        (codes.stored, codes.shape.as_slice())
    else {
        return Err(tensors.unfit(codes, "a matrix of U8"));
    };
    let cols = across.saturating_mul(2);
    let scales = tensors.require(&format!("{base}.weight_scale"))?;
    let groups = cols.div_ceil(GROUP);
    let are_floats = scales.stored == StoredEncoding::Unsupported("F8_E4M3");
    if !are_floats || !cols.is_multiple_of(GROUP) || scales.shape != [rows, groups] {
        let expected = format!("F8_E4M3 of shape [{rows}, {groups}]");
        return Err(tensors.unfit(scales, &expected));
    }
    let (name, divides) = match package {
        Package::CompressedTensors => ("weight_global_scale", true),
        Package::ModelOpt => ("weight_scale_2", false),
    };
    let of_tensor = tensors.require(&format!("{base}.{name}"))?;
    let factors = Factors::TwoLevels {
        scales: scales.clone(),
        of_tensor: TensorScales::new(tensors, of_tensor, 1, divides)?,
    };
    let codes = Packed {
        tensor: codes.clone(),
        word_bytes: 1,
        along: Along::Cols,
        strides: [1, across],
        shifts: LOW_FIRST,
        mask: 15,
        add: 0,
    };
    assemble(
        tensors,
        Encoding::NVFP4,
        [rows, cols],
        codes,
        (factors, cols),
    )
}

/// Refuses a layer with tensors that no kernel takes into account.
pub(super) fn refuse_other_parts(tensors: &Tensors<'_>, base: &str) -> Result<(), WeightError> {
    let mut names = UNSUPPORTED.iter().map(|part| format!("{base}.{part}"));
    match names.find(|name| tensors.find(name).is_some()) {
        Some(name) => Err(tensors.error(format!("its tensor {name} is not supported"))),
        None => Ok(()),
    }
}

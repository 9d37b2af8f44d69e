//! The last step of every format.

use wisp_types::encoding::{BLOCK, Encoding};

use crate::{
    error::WeightError,
    quantized::{
        matrix::{Factors, QuantizedMatrix},
        packed::Packed,
        tensors::Tensors,
    },
    tensor::TensorInfo,
};

/// Assembles a matrix whose columns are in `groups` groups of equal size.
pub(super) fn assemble(
    tensors: &Tensors<'_>,
    encoding: Encoding,
    [rows, cols]: [u64; 2],
    codes: Packed,
    (factors, group): (Factors, u64),
) -> Result<QuantizedMatrix, WeightError> {
    // Checks that rows are whole blocks, and that sizes do not overflow.
    let mut info = TensorInfo::new(&tensors.weight, encoding, &[rows, cols])?;
    info.file = codes.tensor.file;
    info.offset = codes.tensor.offset;
    let block = BLOCK as u64;
    if group == 0 || !group.is_multiple_of(block) && group < cols {
        return Err(tensors.error(format!(
            "its groups have {group} columns, supported are multiples of {block}"
        )));
    }
    Ok(QuantizedMatrix {
        info,
        encoding,
        rows,
        cols,
        codes,
        factors,
        group,
        order: None,
        kept: Default::default(),
    })
}

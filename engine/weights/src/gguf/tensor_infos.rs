//! Checking the descriptions of tensors against each other and the file.

use super::ggml_type::GgmlType;
use crate::{error::FormatError, tensor::TensorInfo};

/// The fields of a tensor's description in a file.
pub(super) struct Description {
    pub name: String,
    /// Outermost dimension first.
    pub shape: Vec<u64>,
    pub ggml_type: u32,
    /// From the start of the data, in bytes.
    pub offset: u64,
    pub big_endian: bool,
}

/// Checks the description of a tensor and computes its size. The offset remains relative to the data.
pub(super) fn tensor_info(
    description: Description,
    alignment: u64,
) -> Result<TensorInfo, FormatError> {
    let Description {
        name: tensor,
        shape,
        ggml_type,
        offset,
        big_endian,
    } = description;
    let ggml_type = match GgmlType::from_id(ggml_type) {
        Ok(ggml_type) => ggml_type,
        Err(found) => return Err(FormatError::UnknownType { tensor, found }),
    };
    let weights = shape
        .iter()
        .try_fold(1u64, |product, &size| product.checked_mul(size));
    let Some(weights) = weights.filter(|&weights| weights > 0) else {
        return Err(FormatError::Shape { tensor, shape });
    };
    let cols = shape.last().copied().unwrap_or(1);
    if !cols.is_multiple_of(ggml_type.block_weights) {
        return Err(FormatError::Row {
            tensor,
            stored: ggml_type.stored.to_string(),
            cols,
            block: ggml_type.block_weights,
        });
    }
    let blocks = weights / ggml_type.block_weights;
    let Some(len) = blocks.checked_mul(ggml_type.block_bytes) else {
        return Err(FormatError::Shape { tensor, shape });
    };
    if !offset.is_multiple_of(alignment) {
        return Err(FormatError::Misaligned {
            tensor,
            offset,
            alignment,
        });
    }
    Ok(TensorInfo {
        name: tensor,
        stored: ggml_type.stored,
        shape,
        file: 0,
        offset,
        len,
        big_endian,
    })
}

/// Makes the offsets of tensors relative to the file, and checks that each tensor is inside the file and
/// that their names differ.
pub(super) fn place_tensors(
    tensors: &mut [TensorInfo],
    data_offset: u64,
    file_len: Option<u64>,
) -> Result<(), FormatError> {
    for tensor in tensors.iter_mut() {
        let start = data_offset.checked_add(tensor.offset);
        let end = start.and_then(|start| start.checked_add(tensor.len));
        let (Some(start), Some(end)) = (start, end) else {
            return Err(FormatError::Offset {
                tensor: tensor.name.clone(),
                offset: tensor.offset,
            });
        };
        tensor.offset = start;
        if let Some(len) = file_len
            && end > len
        {
            return Err(FormatError::TensorTruncated {
                tensor: tensor.name.clone(),
                end,
                len,
            });
        }
    }
    let mut names: Vec<_> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(FormatError::Duplicate {
            what: "tensor",
            name: pair[0].into(),
        });
    }
    Ok(())
}

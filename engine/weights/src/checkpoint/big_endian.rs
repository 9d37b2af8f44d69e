//! Reading parts of big-endian tensors, whose blocks can only be swapped whole.

use std::{borrow::Cow, ops::Range};

use wisp_types::Encoding;

use crate::{
    encodings::swap_byte_order,
    error::WeightError,
    tensor::{StoredEncoding, TensorInfo},
};

/// The encoding whose blocks must be swapped when the tensor is read; `None` if none must.
fn swapped_encoding(tensor: &TensorInfo) -> Option<Encoding> {
    match tensor.stored {
        StoredEncoding::Supported(encoding) if tensor.big_endian => Some(encoding),
        _ => None,
    }
}

/// Returns the range that has to be read from the file to obtain `range`: that of the blocks that it
/// touches, if they must be swapped.
///
/// # Errors
///
/// If the range is not inside the tensor.
pub(super) fn whole_blocks(
    tensor: &TensorInfo,
    range: &Range<u64>,
) -> Result<Range<u64>, WeightError> {
    if range.start > range.end || range.end > tensor.len {
        return Err(tensor.out_of_range(range));
    }
    let Some(encoding) = swapped_encoding(tensor) else {
        return Ok(range.clone());
    };
    let block = encoding.file_block_bytes() as u64;
    Ok(range.start / block * block..range.end.div_ceil(block) * block)
}

/// Returns the bytes `range` of a tensor, little-endian, from those that [`whole_blocks`] asked for, which
/// begin at `start`.
pub(super) fn to_little_endian<'a>(
    tensor: &TensorInfo,
    bytes: Cow<'a, [u8]>,
    start: u64,
    range: &Range<u64>,
) -> Cow<'a, [u8]> {
    let Some(encoding) = swapped_encoding(tensor) else {
        return bytes;
    };
    let mut bytes = bytes.into_owned();
    swap_byte_order(encoding, &mut bytes);
    bytes.drain(..(range.start - start) as usize);
    bytes.truncate((range.end - range.start) as usize);
    Cow::Owned(bytes)
}

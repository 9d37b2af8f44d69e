//! Parsing a file of either kind.

use super::{archive, legacy, state_dict::tensors, zip};
use crate::{error::FormatError, file_signature::describe, tensor::TensorInfo};

/// Returns true if the first bytes of a file are those of one that `torch.save` wrote.
pub fn is_pytorch(head: &[u8]) -> bool {
    head.starts_with(zip::MAGIC) || head.starts_with(legacy::MAGIC)
}

/// Returns the tensors of the state dict that a file holds, in the order of the dict.
///
/// # Errors
///
/// If the file is unsound, or holds something else than a state dict of contiguous tensors.
pub fn parse(file: &[u8]) -> Result<Vec<TensorInfo>, FormatError> {
    let (storages, unpickled) = if file.starts_with(legacy::MAGIC) {
        legacy::read(file)?
    } else if file.starts_with(zip::MAGIC) {
        archive::read(file)?
    } else {
        return Err(FormatError::NotThisFormat {
            expected: "PyTorch",
            found: describe(file),
        });
    };
    Ok(tensors(&storages, unpickled)?)
}

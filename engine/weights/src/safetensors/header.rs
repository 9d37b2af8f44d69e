//! The header of a safetensors file.
//!
//! The `safetensors` crate parses the header and checks shapes, sizes and overlaps. Its `read_metadata`
//! adds lengths without checking for overflow, so the length of the file is checked here.

use std::collections::HashMap;

use safetensors::{Dtype, tensor::Metadata};
use wisp_types::Encoding;

use crate::{
    error::FormatError,
    file_signature::describe,
    tensor::{StoredEncoding, TensorInfo},
};

/// The size of the length of the header, with which a file starts, in bytes.
const LENGTH_BYTES: usize = 8;
/// The longest header that the format allows, in bytes.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// The header of a safetensors file.
#[derive(Clone, Debug)]
pub struct Safetensors {
    /// The texts under `__metadata__`.
    pub metadata: HashMap<String, String>,
    /// The tensors, in the order of their data.
    pub tensors: Vec<TensorInfo>,
}

impl Safetensors {
    /// Returns the number of bytes at the start of the file that hold the header. `head` has the first
    /// bytes of the file: 8 are enough, more make better messages. `file_len` is the length of the file,
    /// if it is known.
    ///
    /// # Errors
    ///
    /// If the file is not in this format, or shorter than its header.
    pub fn header_bytes(head: &[u8], file_len: Option<u64>) -> Result<u64, FormatError> {
        let not_this_format = || FormatError::NotThisFormat {
            expected: "safetensors",
            found: describe(head),
        };
        let Some((&length, rest)) = head.split_first_chunk::<LENGTH_BYTES>() else {
            return Err(not_this_format());
        };
        let length = u64::from_le_bytes(length);
        let first = rest.first();
        if !(2..=MAX_HEADER_BYTES).contains(&length) || first.is_some_and(|&byte| byte != b'{') {
            return Err(not_this_format());
        }
        let end = length + LENGTH_BYTES as u64;
        match file_len {
            Some(len) if end > len => Err(header_truncated(len)),
            _ => Ok(end),
        }
    }

    /// Parses a header. `head` has the first bytes of the file, at least to the end of the header. The
    /// length of the file, if it is known, must be exactly what the header implies.
    ///
    /// # Errors
    ///
    /// If the file is not a sound safetensors file.
    pub fn parse(head: &[u8], file_len: Option<u64>) -> Result<Safetensors, FormatError> {
        let data_offset = Self::header_bytes(head, file_len)?;
        let json = usize::try_from(data_offset)
            .ok()
            .and_then(|end| head.get(LENGTH_BYTES..end))
            .ok_or_else(|| header_truncated(head.len() as u64))?;
        let header: Metadata =
            serde_json::from_slice(json).map_err(|error| FormatError::SafetensorsHeader {
                reason: error.to_string().escape_debug().to_string(),
            })?;
        let mut tensors = Vec::new();
        for (name, info) in header.tensors() {
            // The crate has checked that tensors are in order, without gaps or overlaps.
            let (start, end) = info.data_offsets;
            let Some(offset) = data_offset.checked_add(start as u64) else {
                return Err(FormatError::Offset {
                    tensor: name,
                    offset: start as u64,
                });
            };
            tensors.push(TensorInfo {
                stored: stored_encoding(info.dtype),
                shape: info.shape.iter().map(|&size| size as u64).collect(),
                file: 0,
                offset,
                len: (end - start) as u64,
                big_endian: false,
                name,
            });
        }
        // Names break ties between empty tensors, so that the order is always the same.
        tensors.sort_by(|a, b| (a.offset, a.len, &a.name).cmp(&(b.offset, b.len, &b.name)));
        check_file_len(&tensors, data_offset, file_len)?;
        Ok(Safetensors {
            metadata: header.metadata().clone().unwrap_or_default(),
            tensors,
        })
    }
}

fn header_truncated(len: u64) -> FormatError {
    FormatError::Truncated {
        len,
        inside: "the header".into(),
    }
}

/// Checks that the file ends with its last tensor.
fn check_file_len(
    tensors: &[TensorInfo],
    data_offset: u64,
    file_len: Option<u64>,
) -> Result<(), FormatError> {
    let mut end = data_offset;
    for tensor in tensors {
        end = tensor
            .offset
            .checked_add(tensor.len)
            .ok_or_else(|| FormatError::Offset {
                tensor: tensor.name.clone(),
                offset: tensor.offset,
            })?;
        if let Some(len) = file_len.filter(|&len| end > len) {
            return Err(FormatError::TensorTruncated {
                tensor: tensor.name.clone(),
                end,
                len,
            });
        }
    }
    match file_len {
        Some(len) if len > end => Err(FormatError::TrailingBytes { extra: len - end }),
        _ => Ok(()),
    }
}

fn stored_encoding(dtype: Dtype) -> StoredEncoding {
    StoredEncoding::Unsupported(match dtype {
        Dtype::F32 => return StoredEncoding::Supported(Encoding::F32),
        Dtype::F16 => return StoredEncoding::Supported(Encoding::F16),
        Dtype::BF16 => return StoredEncoding::Supported(Encoding::BF16),
        Dtype::BOOL => "BOOL",
        Dtype::F4 => "F4",
        Dtype::F6_E2M3 => "F6_E2M3",
        Dtype::F6_E3M2 => "F6_E3M2",
        Dtype::U8 => "U8",
        Dtype::I8 => "I8",
        Dtype::F8_E5M2 => "F8_E5M2",
        Dtype::F8_E4M3 => "F8_E4M3",
        Dtype::F8_E8M0 => "F8_E8M0",
        Dtype::F8_E4M3FNUZ => "F8_E4M3FNUZ",
        Dtype::F8_E5M2FNUZ => "F8_E5M2FNUZ",
        Dtype::I16 => "I16",
        Dtype::U16 => "U16",
        Dtype::I32 => "I32",
        Dtype::U32 => "U32",
        Dtype::C64 => "C64",
        Dtype::F64 => "F64",
        Dtype::I64 => "I64",
        Dtype::U64 => "U64",
        // The enumeration is non-exhaustive.
        _ => "an unknown dtype",
    })
}

//! safetensors: the header, and the index of a checkpoint in several files, which PyTorch's share.
//!
//! The `safetensors` crate parses the header and checks shapes, sizes and overlaps. Its
//! `read_metadata` adds unchecked lengths, so the file's length is checked here.

use std::collections::HashMap;

use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde::Deserialize;

use super::error::FormatError;
use super::sniff::looks_like;
use super::tensor::{StoredEncoding, TensorInfo};
use super::{Encoding, WeightError};

/// Bytes of the header's length, with which a file starts.
const LENGTH_BYTES: u64 = 8;
/// The format's own limit for headers.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// The header of a safetensors file.
#[derive(Clone, Debug)]
pub struct Safetensors {
    /// The texts under `__metadata__`.
    pub metadata: HashMap<String, String>,
    /// The tensors in the order of their data.
    pub tensors: Vec<TensorInfo>,
}

impl Safetensors {
    /// How many bytes at the file's start hold the header, from the file's first bytes (8 are
    /// enough, more make better messages) and its length where it is known.
    ///
    /// # Errors
    ///
    /// If the bytes are those of something else or the file is too short.
    pub fn header_bytes(head: &[u8], file_len: Option<u64>) -> Result<u64, FormatError> {
        let not_this = || FormatError::NotThisFormat {
            expected: "safetensors",
            found: looks_like(head),
        };
        let Some(&length) = head.first_chunk::<{ LENGTH_BYTES as usize }>() else {
            return Err(not_this());
        };
        let header = u64::from_le_bytes(length);
        let brace = head.get(LENGTH_BYTES as usize);
        if !(2..=MAX_HEADER_BYTES).contains(&header) || brace.is_some_and(|&byte| byte != b'{') {
            return Err(not_this());
        }
        let end = header + LENGTH_BYTES;
        match file_len {
            Some(len) if end > len => Err(FormatError::Truncated {
                len,
                inside: "the header".into(),
            }),
            _ => Ok(end),
        }
    }

    /// Reads a header, from the file's start to at least the header's end. The file's length, if
    /// known, must be exactly what the header says.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the file.
    pub fn parse(head: &[u8], file_len: Option<u64>) -> Result<Safetensors, FormatError> {
        let data_offset = Self::header_bytes(head, file_len)?;
        let json = usize::try_from(data_offset)
            .ok()
            .and_then(|end| head.get(LENGTH_BYTES as usize..end))
            .ok_or_else(|| FormatError::Truncated {
                len: head.len() as u64,
                inside: "the header".into(),
            })?;
        let header: Metadata =
            serde_json::from_slice(json).map_err(|error| FormatError::SafetensorsHeader {
                reason: error.to_string().escape_debug().to_string(),
            })?;
        let mut tensors = Vec::new();
        for (name, info) in header.tensors() {
            // Ordered and without gaps or overlaps, as the crate has checked.
            let (start, end) = info.data_offsets;
            tensors.push(TensorInfo {
                stored: stored(info.dtype),
                shape: info.shape.iter().map(|&size| size as u64).collect(),
                file: 0,
                offset: data_offset.checked_add(start as u64).ok_or_else(|| {
                    FormatError::Offset {
                        tensor: name.clone(),
                        offset: start as u64,
                    }
                })?,
                len: (end - start) as u64,
                big_endian: false,
                name,
            });
        }
        // Names break ties between empty tensors, so that the order never varies.
        tensors.sort_by(|a, b| (a.offset, a.len, &a.name).cmp(&(b.offset, b.len, &b.name)));
        check_length(&tensors, data_offset, file_len)?;
        Ok(Safetensors {
            metadata: header.metadata().clone().unwrap_or_default(),
            tensors,
        })
    }
}

/// Checks that the file ends where its last tensor does.
fn check_length(
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
            return Err(FormatError::Truncated {
                len,
                inside: format!(
                    "tensor `{}`, which ends at byte {end}",
                    tensor.name.escape_debug()
                ),
            });
        }
    }
    match file_len {
        Some(len) if len > end => Err(FormatError::TrailingBytes { extra: len - end }),
        _ => Ok(()),
    }
}

fn stored(dtype: Dtype) -> StoredEncoding {
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
        // The crate may learn new ones.
        _ => "a dtype that is new",
    })
}

/// `model.safetensors.index.json`: which file holds which tensor.
#[derive(Debug)]
pub struct SafetensorsIndex {
    /// The files, sorted, each once. They are relative paths that stay inside the index's folder.
    pub files: Vec<String>,
    /// For each tensor the position of its file in `files`.
    pub weight_map: HashMap<String, usize>,
}

impl SafetensorsIndex {
    /// Reads an index.
    ///
    /// # Errors
    ///
    /// If it is no such index, or names a file outside its folder. `name` stands in the message.
    pub fn parse(name: &str, json: &[u8]) -> Result<SafetensorsIndex, WeightError> {
        #[derive(Deserialize)]
        struct Index {
            weight_map: HashMap<String, String>,
        }
        let error = |reason: String| WeightError::Index {
            file: name.into(),
            reason,
        };
        let index: Index = serde_json::from_slice(json).map_err(|reason| {
            error(format!(
                "not an index of a checkpoint's files ({})",
                reason.to_string().escape_debug()
            ))
        })?;
        if index.weight_map.is_empty() {
            return Err(error("the index names no tensor".into()));
        }
        let mut files: Vec<_> = index.weight_map.values().cloned().collect();
        files.sort_unstable();
        files.dedup();
        if let Some(file) = files.iter().find(|file| !stays_inside(file)) {
            return Err(error(format!(
                "the index names the file `{}`; expected a file inside the index's own folder",
                file.escape_debug()
            )));
        }
        let position = |file: &String| files.binary_search(file).unwrap_or_default();
        let weight_map = index.weight_map.iter();
        let weight_map = weight_map
            .map(|(tensor, file)| (tensor.clone(), position(file)))
            .collect();
        Ok(SafetensorsIndex { files, weight_map })
    }
}

/// True for a plain relative path, on every system: Windows takes `\` for a separator and `:`
/// for the end of a drive's name.
fn stays_inside(path: &str) -> bool {
    !path.contains(['\\', ':', '\0'])
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

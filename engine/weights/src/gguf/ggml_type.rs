//! The numbers that GGUF files use for the types of tensors (`ggml_type`), and the sizes of those types.

use crate::tensor::StoredEncoding;
use wisp_types::Encoding;

/// Types that Wisp does not compute with, but whose sizes it checks:
/// (number, name, weights a block, bytes a block), as in ggml's `ggml-common.h`.
#[rustfmt::skip]
const OTHERS: [(u32, &str, u64, u64); 11] = [
    (9,  "Q8_1",    32,  36),
    (15, "Q8_K",    256, 292),
    (24, "I8",      1,   1),
    (25, "I16",     1,   2),
    (26, "I32",     1,   4),
    (27, "I64",     1,   8),
    (28, "F64",     1,   8),
    (40, "NVFP4",   64,  36),
    (41, "Q1_0",    128, 18),
    // Removed from ggml; their sizes are no longer defined.
    (4,  "Q4_2",    0,   0),
    (5,  "Q4_3",    0,   0),
];

/// The name and block size of a `ggml_type`.
#[derive(Clone, Copy, Debug)]
pub(super) struct GgmlType {
    /// The encoding, or the name of one that Wisp does not compute with.
    pub stored: StoredEncoding,
    /// The number of weights in a block.
    pub block_weights: u64,
    /// The size of a block in bytes.
    pub block_bytes: u64,
}

impl GgmlType {
    /// Returns the type with this number; for an unknown one, its number and the name that it once had.
    pub fn from_id(id: u32) -> Result<GgmlType, String> {
        if let Some(encoding) = Encoding::from_ggml_type(id) {
            return Ok(GgmlType {
                stored: StoredEncoding::Supported(encoding),
                block_weights: encoding.file_block_weights() as u64,
                block_bytes: encoding.file_block_bytes() as u64,
            });
        }
        match OTHERS.iter().find(|other| other.0 == id) {
            Some(&(_, name, block_weights, block_bytes)) if block_weights > 0 => Ok(GgmlType {
                stored: StoredEncoding::Unsupported(name),
                block_weights,
                block_bytes,
            }),
            Some((_, name, ..)) => Err(format!("{id} ({name}, no longer in GGUF)")),
            None => Err(id.to_string()),
        }
    }
}

//! The table of weight encodings: how many bytes a block takes in a file and in a packed plane.

use serde::{Deserialize, Serialize};

/// Weights of one packed block; a row of a packed weight is a whole number of these.
pub const BLOCK: usize = 32;

/// Every plane of a packed weight starts at a multiple of this many bytes in its buffer, the
/// largest alignment that WebGPU may ask of a storage binding.
pub const PLANE_ALIGN: u64 = 256;

/// How a weight tensor is stored, in a file and (repacked, without loss) on a device.
///
/// The names are ggml's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, non_camel_case_types)]
pub enum Encoding {
    F32,
    F16,
    BF16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    IQ4_NL,
    MXFP4,
    /// What weights may become while they are loaded; not in files.
    F8_E4M3,
}

/// One row of the table of encodings.
#[derive(Clone, Copy, Debug)]
struct Row {
    encoding: Encoding,
    /// The encoding's name, as in a kernel's name.
    name: &'static str,
    /// `ggml_type`; [`NO_FILES`] where there are none.
    ggml: u32,
    /// Weights and bytes of one block in a file.
    file_block: (usize, usize),
    /// Bytes of the three planes (main, high, scales), each for `1` or `8` packed blocks.
    planes: [(usize, usize); 3],
}

const fn row(
    encoding: Encoding,
    name: &'static str,
    ggml: u32,
    file_block: (usize, usize),
    planes: [(usize, usize); 3],
) -> Row {
    Row {
        encoding,
        name,
        ggml,
        file_block,
        planes,
    }
}

/// Instead of a `ggml_type`.
const NO_FILES: u32 = u32::MAX;

/// Absent plane.
const NONE: (usize, usize) = (0, 1);

#[rustfmt::skip]
const TABLE: [Row; 16] = [
    row(Encoding::F32,    "f32",    0,  (1, 4),     [(128, 1), NONE, NONE]),
    row(Encoding::F16,    "f16",    1,  (1, 2),     [(64, 1), NONE, NONE]),
    row(Encoding::BF16,   "bf16",   30, (1, 2),     [(64, 1), NONE, NONE]),
    row(Encoding::Q4_0,   "q4_0",   2,  (32, 18),   [(16, 1), NONE, (2, 1)]),
    row(Encoding::Q4_1,   "q4_1",   3,  (32, 20),   [(16, 1), NONE, (4, 1)]),
    row(Encoding::Q5_0,   "q5_0",   6,  (32, 22),   [(16, 1), (4, 1), (2, 1)]),
    row(Encoding::Q5_1,   "q5_1",   7,  (32, 24),   [(16, 1), (4, 1), (4, 1)]),
    row(Encoding::Q8_0,   "q8_0",   8,  (32, 34),   [(32, 1), NONE, (2, 1)]),
    row(Encoding::Q2_K,   "q2_k",   10, (256, 84),  [(8, 1), NONE, (20, 8)]),
    row(Encoding::Q3_K,   "q3_k",   11, (256, 110), [(8, 1), (4, 1), (16, 8)]),
    row(Encoding::Q4_K,   "q4_k",   12, (256, 144), [(16, 1), NONE, (16, 8)]),
    row(Encoding::Q5_K,   "q5_k",   13, (256, 176), [(16, 1), (4, 1), (16, 8)]),
    row(Encoding::Q6_K,   "q6_k",   14, (256, 210), [(16, 1), (8, 1), (20, 8)]),
    row(Encoding::IQ4_NL, "iq4_nl", 20, (32, 18),   [(16, 1), NONE, (2, 1)]),
    row(Encoding::MXFP4,  "mxfp4",  39, (32, 17),   [(16, 1), NONE, (1, 1)]),
    row(Encoding::F8_E4M3, "f8_e4m3", NO_FILES, (32, 36), [(32, 1), NONE, (4, 1)]),
];

impl Encoding {
    /// Every encoding of files, in the order of their declaration.
    pub fn file_encodings() -> impl Iterator<Item = Encoding> {
        let rows = TABLE.iter().filter(|row| row.ggml != NO_FILES);
        rows.map(|row| row.encoding)
    }

    /// Every encoding that kernels read: those of files, and what weights may become while they are
    /// loaded.
    pub fn device_encodings() -> impl Iterator<Item = Encoding> {
        TABLE.iter().map(|row| row.encoding)
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Lower-case name, as it stands in kernel names: `q4_k`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The encoding of a `ggml_type`, if Wisp has it.
    pub fn from_ggml_type(ggml_type: u32) -> Option<Encoding> {
        TABLE
            .iter()
            .find(|row| row.ggml == ggml_type && ggml_type != NO_FILES)
            .map(|row| row.encoding)
    }

    /// The encoding's `ggml_type`; `None` for an encoding that no file has.
    pub fn ggml_type(self) -> Option<u32> {
        Some(self.row().ggml).filter(|ggml_type| *ggml_type != NO_FILES)
    }

    /// Weights in one block of a file; a row's columns must be a multiple of it.
    pub fn file_block_weights(self) -> usize {
        self.row().file_block.0
    }

    /// Bytes of one block of a file.
    pub fn file_block_bytes(self) -> usize {
        self.row().file_block.1
    }

    /// Bytes of a row of `cols` weights in a file; `None` if `cols` is no whole number of blocks
    /// or the size overflows.
    pub fn file_row_bytes(self, cols: u64) -> Option<u64> {
        let (weights, bytes) = self.row().file_block;
        if !cols.is_multiple_of(weights as u64) {
            return None;
        }
        (cols / weights as u64).checked_mul(bytes as u64)
    }

    /// Bytes that each plane (main, high, scales) takes for one row of `cols` weights.
    pub fn plane_row_bytes(self, cols: u64) -> [u64; 3] {
        let blocks = cols.div_ceil(BLOCK as u64);
        self.row()
            .planes
            .map(|(bytes, per)| blocks.div_ceil(per as u64).saturating_mul(bytes as u64))
    }

    /// Which planes the encoding has; the main one always.
    pub fn has_plane(self) -> [bool; 3] {
        self.row().planes.map(|(bytes, _)| bytes != 0)
    }

    /// True for F32, F16 and BF16.
    pub fn is_float(self) -> bool {
        self.row().file_block.0 == 1
    }
}

impl std::fmt::Display for Encoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name().to_uppercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_enums_order() {
        for (i, row) in TABLE.iter().enumerate() {
            assert_eq!(row.encoding as usize, i, "{}", row.name);
            let found = Encoding::from_ggml_type(row.ggml);
            assert_eq!(found, (row.ggml != NO_FILES).then_some(row.encoding));
        }
    }
}

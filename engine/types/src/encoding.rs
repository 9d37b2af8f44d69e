//! The table of weight encodings: their block sizes in files and in packed planes.
//!
//! In a file, a row of weights is a sequence of blocks as ggml lays them out. On a device, a row is packed
//! into up to three *planes*, each an array of its own buffer range, so that kernels load them aligned: the
//! main plane with the low bits of each weight, the high plane with the remaining bits, and the scales
//! plane. Packing moves bits and loses none.

use serde::{Deserialize, Serialize};

/// The number of weights in a packed block. A row of a packed weight is a whole number of such blocks,
/// whatever its encoding; a row of floats is padded with zeros.
pub const BLOCK: usize = 32;

/// How the weights of a tensor are stored, in a file and (repacked, without loss) on a device.
///
/// The names and block layouts are ggml's; `Display` writes them in upper case. In the formulas, `q` is
/// the integer of one weight, `d` the half-precision scale and `m` (or `dmin`) the half-precision minimum
/// of its block; `scale` and `min` are the integers that K-quants store for each sub-block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(non_camel_case_types)]
pub enum Encoding {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16: the upper half of a single.
    BF16,
    /// 4 bits, `d * (q - 8)`; 4.5 bits per weight.
    Q4_0,
    /// 4 bits, `d * q + m`; 5 bits per weight.
    Q4_1,
    /// 5 bits, `d * (q - 16)`; 5.5 bits per weight.
    Q5_0,
    /// 5 bits, `d * q + m`; 6 bits per weight.
    Q5_1,
    /// 8 bits, `d * q`; 8.5 bits per weight.
    Q8_0,
    /// 2 bits, `d * scale * q - dmin * min` for each 16 weights; 2.625 bits per weight.
    Q2_K,
    /// 3 bits, `d * (scale - 32) * (q - 4)` for each 16 weights; 3.4375 bits per weight.
    Q3_K,
    /// 4 bits, `d * scale * q - dmin * min` for each 32 weights; 4.5 bits per weight.
    Q4_K,
    /// 5 bits, `d * scale * q - dmin * min` for each 32 weights; 5.5 bits per weight.
    Q5_K,
    /// 6 bits, `d * scale * (q - 32)` for each 16 weights; 6.5625 bits per weight.
    Q6_K,
    /// 4 bits that index a table of 16 unevenly spaced values, times `d`; 4.5 bits per weight.
    IQ4_NL,
    /// The values of [`Self::IQ4_NL`], times `d * (scale - 32)` for each 32 weights; 4.25 bits per
    /// weight.
    IQ4_XS,
    /// 4-bit floats (E2M1) with a power of two as scale, as in OCP's Microscaling Formats
    /// specification v1.0; 4.25 bits per weight.
    MXFP4,
    /// 8-bit floats (E4M3), times a scale in single precision; 9 bits per weight. Checkpoints with FP8 weights
    /// become it while they are loaded, and float weights may.
    F8_E4M3,
    /// 4 bits, `scale * (q - zero)` with an integer `zero` for each 32 weights; 5 bits per weight. Checkpoints in
    /// GPTQ, AWQ and compressed-tensors become it while they are loaded.
    UINT4,
    /// 8 bits, `scale * (q - zero)` with an integer `zero` for each 32 weights; 9 bits per weight. The 8-bit
    /// checkpoints of [`Self::UINT4`]'s formats become it while they are loaded.
    UINT8,
    /// 4 bits that index the 16 values of bitsandbytes' NF4 (Dettmers et al. 2023, "QLoRA"), times a scale in single
    /// precision; 5 bits per weight. Checkpoints of bitsandbytes become it while they are loaded.
    NF4,
    /// 4-bit floats (E2M1) with an 8-bit float (E4M3) as scale for each 16 weights and one in single precision for each
    /// 64, which is that of the tensor, as in NVIDIA's NVFP4; 5 bits per weight. Checkpoints in NVFP4 become it while
    /// they are loaded: those in GGUF (4.5 bits, and a tensor beside them), compressed-tensors and ModelOpt.
    NVFP4,
    /// Ternary: 2 bits, `d * (q - 1)`; 2.0625 bits per weight.
    TQ2_0,
    /// Ternary: five weights in a byte; 1.6875 bits per weight in files, and those of [`Self::TQ2_0`] on devices.
    TQ1_0,
    /// 3 bits, `d / 8 * (2 * scale + 1) * value` for each 16 weights, with the values of the grids of [`Self::IQ2_XXS`]
    /// or [`Self::IQ1_S`]; 3.375 bits per weight. No file has it.
    IQ2,
    /// 4 bits, `d / 2 * (2 * scale + 1) * value` for each 32 weights, with the values of the grids of
    /// [`Self::IQ3_XXS`] or [`Self::IQ3_S`]; 4.25 bits per weight. No file has it.
    IQ3,
    /// Eight weights in an index into a grid, and their signs; 2.0625 bits per weight in files, [`Self::IQ2`] on devices.
    IQ2_XXS,
    /// [`Self::IQ2_XXS`] with a larger grid; 2.3125 bits per weight in files.
    IQ2_XS,
    /// [`Self::IQ2_XXS`] with a still larger grid and all signs; 2.5625 bits per weight in files.
    IQ2_S,
    /// Eight ternary weights in an index into a grid, and an offset; 1.5625 bits per weight in files, [`Self::IQ2`] on
    /// devices.
    IQ1_S,
    /// [`Self::IQ1_S`] with finer scales and offsets; 1.75 bits per weight in files.
    IQ1_M,
    /// Four weights in an index into a grid, and their signs; 3.0625 bits per weight in files, [`Self::IQ3`] on devices.
    IQ3_XXS,
    /// [`Self::IQ3_XXS`] with a larger grid and all signs; 3.4375 bits per weight in files.
    IQ3_S,
}

/// The sizes of one encoding's blocks.
#[derive(Clone, Copy, Debug)]
struct Layout {
    encoding: Encoding,
    /// The lower-case name.
    name: &'static str,
    /// The number in GGUF files, or [`NOT_IN_FILES`].
    ggml_type: u32,
    /// Weights and bytes of one block in a file.
    file_block: (usize, usize),
    /// The main, high and scales planes.
    planes: [Plane; 3],
}

/// The size of a plane.
#[derive(Clone, Copy, Debug)]
struct Plane {
    bytes: usize,
    /// The number of packed blocks that share these bytes.
    blocks: usize,
}

/// A plane with its own bytes for each packed block.
const fn each(bytes: usize) -> Plane {
    Plane { bytes, blocks: 1 }
}

/// A plane with bytes for each super-block of eight packed blocks.
const fn super_block(bytes: usize) -> Plane {
    Plane { bytes, blocks: 8 }
}

/// A plane with bytes for each two packed blocks.
const fn pair(bytes: usize) -> Plane {
    Plane { bytes, blocks: 2 }
}

/// A plane that the encoding does not have.
const NONE: Plane = each(0);

/// The `ggml_type` of encodings that no GGUF file has in this layout.
const NOT_IN_FILES: u32 = u32::MAX;

const fn layout(
    encoding: Encoding,
    name: &'static str,
    ggml_type: u32,
    file_block: (usize, usize),
    planes: [Plane; 3],
) -> Layout {
    Layout {
        encoding,
        name,
        ggml_type,
        file_block,
        planes,
    }
}

#[rustfmt::skip]
const TABLE: [Layout; 32] = [
    layout(Encoding::F32,     "f32",     0,            (1, 4),     [each(128), NONE,    NONE]),
    layout(Encoding::F16,     "f16",     1,            (1, 2),     [each(64),  NONE,    NONE]),
    layout(Encoding::BF16,    "bf16",    30,           (1, 2),     [each(64),  NONE,    NONE]),
    layout(Encoding::Q4_0,    "q4_0",    2,            (32, 18),   [each(16),  NONE,    each(2)]),
    layout(Encoding::Q4_1,    "q4_1",    3,            (32, 20),   [each(16),  NONE,    each(4)]),
    layout(Encoding::Q5_0,    "q5_0",    6,            (32, 22),   [each(16),  each(4), each(2)]),
    layout(Encoding::Q5_1,    "q5_1",    7,            (32, 24),   [each(16),  each(4), each(4)]),
    layout(Encoding::Q8_0,    "q8_0",    8,            (32, 34),   [each(32),  NONE,    each(2)]),
    layout(Encoding::Q2_K,    "q2_k",    10,           (256, 84),  [each(8),   NONE,    super_block(20)]),
    layout(Encoding::Q3_K,    "q3_k",    11,           (256, 110), [each(8),   each(4), super_block(16)]),
    layout(Encoding::Q4_K,    "q4_k",    12,           (256, 144), [each(16),  NONE,    super_block(16)]),
    layout(Encoding::Q5_K,    "q5_k",    13,           (256, 176), [each(16),  each(4), super_block(16)]),
    layout(Encoding::Q6_K,    "q6_k",    14,           (256, 210), [each(16),  each(8), super_block(20)]),
    layout(Encoding::IQ4_NL,  "iq4_nl",  20,           (32, 18),   [each(16),  NONE,    each(2)]),
    layout(Encoding::IQ4_XS,  "iq4_xs",  23,           (256, 136), [each(16),  NONE,    super_block(8)]),
    layout(Encoding::MXFP4,   "mxfp4",   39,           (32, 17),   [each(16),  NONE,    each(1)]),
    layout(Encoding::F8_E4M3, "f8_e4m3", NOT_IN_FILES, (32, 36),   [each(32),  NONE,    each(4)]),
    layout(Encoding::UINT4,   "uint4",   NOT_IN_FILES, (32, 20),   [each(16),  NONE,    each(4)]),
    layout(Encoding::UINT8,   "uint8",   NOT_IN_FILES, (32, 36),   [each(32),  NONE,    each(4)]),
    layout(Encoding::NF4,     "nf4",     NOT_IN_FILES, (32, 20),   [each(16),  NONE,    each(4)]),
    layout(Encoding::NVFP4,   "nvfp4",   NOT_IN_FILES, (64, 40),   [each(16),  NONE,    pair(8)]),
    layout(Encoding::TQ2_0,   "tq2_0",   35,           (256, 66),  [each(8),   NONE,    super_block(2)]),
    layout(Encoding::TQ1_0,   "tq1_0",   34,           (256, 54),  [each(8),   NONE,    super_block(2)]),
    layout(Encoding::IQ2,     "iq2",     NOT_IN_FILES, (256, 108), [each(8),   each(4), super_block(12)]),
    layout(Encoding::IQ3,     "iq3",     NOT_IN_FILES, (256, 136), [each(16),  NONE,    super_block(8)]),
    layout(Encoding::IQ2_XXS, "iq2_xxs", 16,           (256, 66),  [each(8),   each(4), super_block(12)]),
    layout(Encoding::IQ2_XS,  "iq2_xs",  17,           (256, 74),  [each(8),   each(4), super_block(12)]),
    layout(Encoding::IQ2_S,   "iq2_s",   22,           (256, 82),  [each(8),   each(4), super_block(12)]),
    layout(Encoding::IQ1_S,   "iq1_s",   19,           (256, 50),  [each(8),   each(4), super_block(12)]),
    layout(Encoding::IQ1_M,   "iq1_m",   29,           (256, 56),  [each(8),   each(4), super_block(12)]),
    layout(Encoding::IQ3_XXS, "iq3_xxs", 18,           (256, 98),  [each(16),  NONE,    super_block(8)]),
    layout(Encoding::IQ3_S,   "iq3_s",   21,           (256, 110), [each(16),  NONE,    super_block(8)]),
];

impl Encoding {
    /// Iterates over the encodings that GGUF files may have, in the order of their declaration.
    pub fn file_encodings() -> impl Iterator<Item = Encoding> {
        Encoding::all().filter(|encoding| encoding.ggml_type().is_some())
    }

    /// Iterates over all encodings that kernels read: those of GGUF files, and those that weights become
    /// while they are loaded.
    pub fn device_encodings() -> impl Iterator<Item = Encoding> {
        Encoding::all().filter(|encoding| encoding.on_device() == *encoding)
    }

    /// Iterates over the encodings of files and of devices, in the order of their declaration.
    pub fn all() -> impl Iterator<Item = Encoding> {
        TABLE.iter().map(|layout| layout.encoding)
    }

    /// Returns the encoding that weights of this encoding have on a device: another one if files are packed more
    /// densely than kernels can read them.
    pub fn on_device(self) -> Encoding {
        match self {
            Encoding::TQ1_0 => Encoding::TQ2_0,
            Encoding::IQ2_XXS
            | Encoding::IQ2_XS
            | Encoding::IQ2_S
            | Encoding::IQ1_S
            | Encoding::IQ1_M => Encoding::IQ2,
            Encoding::IQ3_XXS | Encoding::IQ3_S => Encoding::IQ3,
            other => other,
        }
    }

    fn layout(self) -> &'static Layout {
        // The table has the order of the enumeration, as a test checks.
        &TABLE[self as usize]
    }

    /// Returns the lower-case name, as in the names of kernels: `q4_k`.
    pub fn name(self) -> &'static str {
        self.layout().name
    }

    /// Returns the encoding with this number in GGUF files (`ggml_type`); `None` if Wisp does not compute
    /// with that type.
    pub fn from_ggml_type(ggml_type: u32) -> Option<Encoding> {
        Encoding::file_encodings().find(|encoding| encoding.ggml_type() == Some(ggml_type))
    }

    /// Returns the encoding's number in GGUF files; `None` for an encoding that none has.
    pub fn ggml_type(self) -> Option<u32> {
        Some(self.layout().ggml_type).filter(|ggml_type| *ggml_type != NOT_IN_FILES)
    }

    /// Returns the number of weights in one block of a file. The length of a row is a multiple of it.
    pub fn file_block_weights(self) -> usize {
        self.layout().file_block.0
    }

    /// Returns the size of one block of a file in bytes.
    pub fn file_block_bytes(self) -> usize {
        self.layout().file_block.1
    }

    /// Returns the size in bytes of a row of `cols` weights in a file; `None` if `cols` is not a whole
    /// number of blocks or the size overflows.
    pub fn file_row_bytes(self, cols: u64) -> Option<u64> {
        let (weights, bytes) = self.layout().file_block;
        if !cols.is_multiple_of(weights as u64) {
            return None;
        }
        (cols / weights as u64).checked_mul(bytes as u64)
    }

    /// Returns the size in bytes of a row of `cols` weights in each plane (main, high, scales), which is 0
    /// for a plane that the encoding does not have. Sizes that overflow saturate.
    pub fn plane_row_bytes(self, cols: u64) -> [u64; 3] {
        let blocks = cols.div_ceil(BLOCK as u64);
        self.layout().planes.map(|plane| {
            let units = blocks.div_ceil(plane.blocks as u64);
            units.saturating_mul(plane.bytes as u64)
        })
    }

    /// Returns the bytes of a packed block in the main and in the high plane.
    pub const fn block_bytes(self) -> [usize; 2] {
        let [main, high, _] = TABLE[self as usize].planes;
        [main.bytes, high.bytes]
    }

    /// Returns which planes (main, high, scales) the encoding has. It always has a main plane.
    pub fn has_plane(self) -> [bool; 3] {
        self.layout().planes.map(|plane| plane.bytes != 0)
    }

    /// Returns true for `F32`, `F16` and `BF16`, which store each weight by itself.
    pub fn is_float(self) -> bool {
        self.file_block_weights() == 1
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
    fn table_has_the_order_of_the_enumeration() {
        for (i, layout) in TABLE.iter().enumerate() {
            assert_eq!(layout.encoding as usize, i, "{}", layout.name);
            let found = Encoding::from_ggml_type(layout.ggml_type);
            let in_files = layout.ggml_type != NOT_IN_FILES;
            assert_eq!(found, in_files.then_some(layout.encoding));
        }
    }
}

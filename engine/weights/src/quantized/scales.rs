//! The scales of quantised matrices.

use wisp_types::Encoding;

use crate::tensor::{StoredEncoding, TensorInfo};

/// A float type of scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScaleType {
    F32,
    F16,
    BF16,
    /// A power of two: `2^(e - 127)` (OCP Microscaling Formats v1.0).
    E8M0,
}

impl ScaleType {
    /// Returns the type of a tensor's elements; `None` if they are no floats.
    pub fn of(info: &TensorInfo) -> Option<ScaleType> {
        match info.stored {
            StoredEncoding::Supported(Encoding::F32) => Some(ScaleType::F32),
            StoredEncoding::Supported(Encoding::F16) => Some(ScaleType::F16),
            StoredEncoding::Supported(Encoding::BF16) => Some(ScaleType::BF16),
            StoredEncoding::Unsupported("F8_E8M0") => Some(ScaleType::E8M0),
            _ => None,
        }
    }

    /// Returns the element at an index. The sizes of the tensor were checked, so that there is one.
    pub fn get(self, bytes: &[u8], index: u64) -> f32 {
        let at = index as usize;
        let half = || {
            bytes
                .as_chunks()
                .0
                .get(at)
                .map_or(0, |half| u16::from_le_bytes(*half))
        };
        match self {
            ScaleType::F32 => f32_at(bytes, at),
            ScaleType::F16 => half::f16::from_bits(half()).to_f32(),
            ScaleType::BF16 => half::bf16::from_bits(half()).to_f32(),
            ScaleType::E8M0 => match bytes.get(at).copied().unwrap_or(0) {
                0 => f32::from_bits(0x0040_0000),
                255 => f32::NAN,
                e => f32::from_bits(u32::from(e) << 23),
            },
        }
    }
}

/// Returns the float at an index.
pub(super) fn f32_at(bytes: &[u8], index: usize) -> f32 {
    let (floats, _) = bytes.as_chunks();
    floats
        .get(index)
        .map_or(0.0, |float| f32::from_le_bytes(*float))
}

/// One scale for the weights of some rows and a group of columns.
#[derive(Clone, Debug)]
pub(super) struct Scales {
    pub tensor: TensorInfo,
    pub dtype: ScaleType,
    /// Neighbouring rows that share scales.
    pub rows: u64,
    /// The distances from a scale to the one of the next rows, and to that of the next group.
    pub strides: [u64; 2],
}

impl Scales {
    /// Returns the scale of a row and a group of columns.
    pub fn get(&self, bytes: &[u8], row: u64, group: u64) -> f32 {
        let index = row / self.rows * self.strides[0] + group * self.strides[1];
        self.dtype.get(bytes, index)
    }
}

/// The largest magnitudes of blocks of bitsandbytes, which may be quantised themselves.
#[derive(Clone, Debug)]
pub(super) struct Absmax {
    pub tensor: TensorInfo,
    /// Weights of a block, counted through all rows.
    pub block: u64,
    pub nested: Option<Nested>,
}

/// The quantisation of largest magnitudes: `map[code] * absmax + offset`.
#[derive(Clone, Debug)]
pub(super) struct Nested {
    /// 256 floats.
    pub map: TensorInfo,
    pub absmax: TensorInfo,
    /// Codes that share an `absmax`.
    pub block: u64,
    pub offset: f32,
}

/// The bytes of an [`Absmax`]' tensors.
#[derive(Clone, Copy)]
pub(super) struct AbsmaxBytes<'a> {
    pub tensor: &'a [u8],
    pub map: &'a [u8],
    pub absmax: &'a [u8],
}

impl Absmax {
    /// Returns the largest magnitude of the block of a weight, which is counted through all rows.
    pub fn get(&self, bytes: AbsmaxBytes<'_>, weight: u64) -> f32 {
        let index = weight / self.block;
        let Some(nested) = &self.nested else {
            return f32_at(bytes.tensor, index as usize);
        };
        let code = bytes.tensor.get(index as usize).copied().unwrap_or(0);
        let absmax = f32_at(bytes.absmax, (index / nested.block) as usize);
        f32_at(bytes.map, code.into()) * absmax + nested.offset
    }
}

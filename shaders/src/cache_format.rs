//! The formats of the KV cache, as the files of `caches/` have them.

use serde::{Deserialize, Serialize};

/// How keys and values are stored. A head is padded with zeros to whole groups of four elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CacheFormat {
    /// Single precision.
    #[default]
    F32,
    /// Half precision; what is beyond its range becomes its largest number.
    F16,
    /// Blocks of 32 signed bytes with a scale in half precision. The last block is as short as the
    /// head ends; the scales follow the blocks, two in a word.
    Q8_0,
}

impl CacheFormat {
    /// Every format.
    pub const ALL: [CacheFormat; 3] = [CacheFormat::F32, CacheFormat::F16, CacheFormat::Q8_0];

    /// Its name, which is also the last part of its ops' names.
    pub fn name(self) -> &'static str {
        match self {
            CacheFormat::F32 => "f32",
            CacheFormat::F16 => "f16",
            CacheFormat::Q8_0 => "q8_0",
        }
    }

    /// The name of an op on a cache of this format.
    pub fn op(self, op: &str) -> String {
        format!("{op}.{}", self.name())
    }

    /// Words (of four bytes) that a head takes.
    pub fn head_words(self, head_dim: u32) -> u64 {
        let quads = u64::from(head_dim).div_ceil(4);
        match self {
            CacheFormat::F32 => 4 * quads,
            CacheFormat::F16 => 2 * quads,
            CacheFormat::Q8_0 => quads + quads.div_ceil(16),
        }
    }

    /// Invocations that write a head, each of them whole words: its part of an op's grid.
    pub fn head_units(self, head_dim: u32) -> u64 {
        let quads = u64::from(head_dim).div_ceil(4);
        match self {
            CacheFormat::F32 | CacheFormat::F16 => quads,
            CacheFormat::Q8_0 => quads.div_ceil(16),
        }
    }
}

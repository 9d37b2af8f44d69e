//! The formats of the KV cache, which the files in `caches/` implement.

use serde::{Deserialize, Serialize};

/// How the KV cache stores keys and values. A head is padded with zeros to whole groups of four elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CacheFormat {
    /// Single precision.
    #[default]
    F32,
    /// Half precision; numbers beyond its range become its largest number. A head takes whole groups of eight elements,
    /// so that 16 bytes can be loaded at once; the last four may be unused.
    F16,
    /// Blocks of 32 signed bytes with a scale in half precision each, of at most 512: numbers beyond 127 times that become
    /// the largest number. The scales follow a head's blocks, two in a word. Blocks and scales are padded with zeros to 16
    /// bytes each, so that as much can be loaded at once.
    Q8_0,
}

impl CacheFormat {
    /// Every format, in the order of their declaration.
    pub const ALL: [CacheFormat; 3] = [CacheFormat::F32, CacheFormat::F16, CacheFormat::Q8_0];

    /// Returns the format's name, which is also the last part of the names of its ops.
    pub fn name(self) -> &'static str {
        match self {
            CacheFormat::F32 => "f32",
            CacheFormat::F16 => "f16",
            CacheFormat::Q8_0 => "q8_0",
        }
    }

    /// Returns the name of an op on a cache of this format: `attention.f16`.
    pub fn op(self, op: &str) -> String {
        format!("{op}.{}", self.name())
    }

    /// Returns the words of four bytes that a head of `head_dim` elements takes.
    pub fn head_words(self, head_dim: u32) -> u64 {
        let vec4s = u64::from(head_dim).div_ceil(4);
        match self {
            CacheFormat::F32 => 4 * vec4s,
            CacheFormat::F16 => 4 * vec4s.div_ceil(2),
            CacheFormat::Q8_0 => 4 * (vec4s.div_ceil(4) + vec4s.div_ceil(64)),
        }
    }

    /// Returns the invocations that write a head of `head_dim` elements, each a unit of whole words: the
    /// head's part of an op's grid.
    pub fn head_units(self, head_dim: u32) -> u64 {
        let vec4s = u64::from(head_dim).div_ceil(4);
        match self {
            CacheFormat::F32 | CacheFormat::F16 => vec4s,
            CacheFormat::Q8_0 => vec4s.div_ceil(16),
        }
    }
}

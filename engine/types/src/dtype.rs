//! The element types of a graph's values.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The element type of a graph's value.
///
/// Weights have an [`Encoding`](crate::Encoding) instead: kernels decode them to `F32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DType {
    /// 32-bit floats: all activations.
    #[serde(alias = "f32")]
    F32,
    /// 32-bit unsigned integers: token ids, positions, page tables.
    #[serde(alias = "u32")]
    U32,
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DType::F32 => "f32",
            DType::U32 => "u32",
        })
    }
}

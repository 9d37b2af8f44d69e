//! Shapes and the types of elements.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Dim;

/// A shape, outermost dimension first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape(pub Vec<Dim>);

impl Shape {
    /// The innermost dimension, if it is known.
    pub fn cols(&self) -> Option<u64> {
        match self.0.last() {
            Some(Dim::Fixed(size)) => Some(*size),
            _ => None,
        }
    }
}

impl<const N: usize> From<[Dim; N]> for Shape {
    fn from(dims: [Dim; N]) -> Shape {
        Shape(dims.to_vec())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, dim) in self.0.iter().enumerate() {
            write!(f, "{}{dim}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}

/// Builds a [`Shape`] from sizes and names: `shape!["tokens", 64u64]`.
#[macro_export]
macro_rules! shape {
    ($($dim:expr),* $(,)?) => {
        $crate::Shape(vec![$($crate::Dim::from($dim)),*])
    };
}

/// The type of a value's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DType {
    /// 32-bit floats: every activation.
    #[serde(alias = "f32")]
    F32,
    /// 32-bit unsigned integers: tokens, positions, page tables.
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

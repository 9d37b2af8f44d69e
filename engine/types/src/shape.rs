//! Shapes of a graph's values.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Dim;

/// The shape of a value, in row-major order: the outermost dimension first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape(pub Vec<Dim>);

impl Shape {
    /// Returns the size of the innermost dimension (the length of a row); `None` if it is symbolic or the
    /// shape has no dimensions.
    pub fn cols(&self) -> Option<u64> {
        self.0.last()?.fixed()
    }
}

impl<const N: usize> From<[Dim; N]> for Shape {
    fn from(dims: [Dim; N]) -> Shape {
        Shape(dims.to_vec())
    }
}

/// Formats as `[tokens, 64]`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, dim) in self.0.iter().enumerate() {
            write!(f, "{}{dim}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}

/// Builds a [`Shape`] from sizes (`u64`) and the names of symbolic dimensions (`&str`):
/// `shape!["tokens", 64u64]`.
#[macro_export]
macro_rules! shape {
    ($($dim:expr),* $(,)?) => {
        $crate::Shape(vec![$($crate::Dim::from($dim)),*])
    };
}

//! Sizes that are known up to the symbolic dimensions of a run.

use serde::{Deserialize, Serialize};

/// A number of elements: `factor` times the product of some of the program's symbolic dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Size {
    /// The part that is known when the program is compiled.
    pub factor: u64,
    /// The symbolic dimensions that the factor is multiplied by, in ascending order, as indices into the
    /// program's list of dimensions. A dimension can occur more than once.
    pub dims: Vec<u32>,
}

impl Size {
    /// Returns a size that does not depend on the run.
    pub fn fixed(factor: u64) -> Size {
        Size {
            factor,
            dims: Vec::new(),
        }
    }

    /// Returns the product of two sizes. A factor beyond 64 bits becomes `u64::MAX`, which no memory has.
    pub fn times(&self, other: &Size) -> Size {
        let factor = self.factor.saturating_mul(other.factor);
        if factor == 0 {
            return Size::fixed(0);
        }
        let mut dims = [&self.dims[..], &other.dims].concat();
        dims.sort_unstable();
        Size { factor, dims }
    }

    /// Returns the size in a run with these dimensions, or `None` if it does not fit 64 bits or one of its
    /// dimensions is not given.
    pub fn eval(&self, dims: &[u64]) -> Option<u64> {
        self.dims.iter().try_fold(self.factor, |product, dim| {
            product.checked_mul(*dims.get(*dim as usize)?)
        })
    }
}

//! The symbolic dimensions of a program, by number, and the sizes that follow from them.

use wisp_graph::lowering::Size;
use wisp_types::{Dim, DimSum};

use crate::program::SizeSum;

/// The dimensions that the sizes of a program refer to.
#[derive(Default)]
pub(super) struct Dimensions {
    /// The names of the dimensions. A sum is called as it is displayed: `new + past`.
    pub names: Vec<String>,
    /// The dimensions that are sums of earlier ones.
    pub sums: Vec<(u32, SizeSum)>,
}

impl Dimensions {
    fn number(&mut self, name: &str) -> u32 {
        let known = self.names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        }) as u32
    }

    /// Returns a sum of named dimensions as one of numbered ones.
    pub fn sum(&mut self, sum: &DimSum) -> SizeSum {
        let terms = sum
            .terms
            .iter()
            .map(|(name, times)| (self.number(name), *times));
        SizeSum {
            terms: terms.collect(),
            constant: sum.constant,
        }
    }

    /// Returns the product of some dimensions.
    pub fn size(&mut self, dims: &[Dim]) -> Size {
        let mut size = Size::fixed(1);
        for dim in dims {
            let (known, rest) = dim.factored();
            size.factor = size.factor.saturating_mul(known);
            let Some(rest) = rest else { continue };
            // The terms of a sum are numbered before it.
            let sum = match &rest {
                Dim::Sum(sum) => Some(self.sum(sum)),
                Dim::Fixed(_) | Dim::Symbol(_) => None,
            };
            let number = self.number(&rest.to_string());
            if let Some(sum) = sum
                && self.sums.iter().all(|(other, _)| *other != number)
            {
                self.sums.push((number, sum));
            }
            size.dims.push(number);
        }
        size.dims.sort_unstable();
        size
    }
}

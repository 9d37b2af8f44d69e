//! Indexing of strided tensors.

use super::args::{Args, size};
use super::error::HostError;

/// The dimensions that a call iterates over, outermost first; a place is one element of them.
#[derive(Clone, Copy)]
pub(super) struct Places<'a>(&'a [u32]);

impl<'a> Places<'a> {
    /// Checks the dimensions of a call.
    pub fn new(args: &Args, rank: u32, dims: &'a [u32; 8]) -> Result<Places<'a>, HostError> {
        let dims = dims.get(..rank as usize);
        let places = Places(dims.ok_or_else(|| args.value("rank", "at most 8", rank))?);
        match u32::try_from(places.len()) {
            Ok(_) => Ok(places),
            Err(_) => Err(args.value(
                "the number of places",
                "less than 2^32",
                places.len() as u64,
            )),
        }
    }

    /// Returns the number of places.
    pub fn len(self) -> usize {
        size(self.0)
    }

    /// Returns one past the last element that these strides reach from an offset.
    pub fn end(self, offset: u32, strides: &[u32; 8]) -> usize {
        if self.0.contains(&0) {
            return 0;
        }
        let steps = self.0.iter().zip(strides);
        let last =
            steps.map(|(size, stride)| (*size as usize - 1).saturating_mul(*stride as usize));
        last.fold(offset as usize + 1, usize::saturating_add)
    }

    /// Returns the offset of a place's element under these strides.
    pub fn at(self, mut place: usize, strides: &[u32; 8]) -> usize {
        let mut element = 0;
        for (size, stride) in self.0.iter().zip(strides).rev() {
            element += place % *size as usize * *stride as usize;
            place /= *size as usize;
        }
        element
    }
}

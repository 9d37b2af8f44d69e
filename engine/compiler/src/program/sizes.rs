//! Sums of a program's dimensions, and what runs check of them.

use serde::{Deserialize, Serialize};

/// A sum of a program's dimensions and a constant, as a concatenation along a symbolic dimension makes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SizeSum {
    /// The dimensions, as indices into [`ProgramParts::dims`](super::ProgramParts::dims), each with the
    /// factor by which it counts.
    pub terms: Vec<(u32, u64)>,
    /// The part that is known when the program is compiled.
    pub constant: u64,
}

impl SizeSum {
    /// Returns the sum in a run with these dimensions, or `None` if it does not fit 64 bits or one of its
    /// dimensions is not given.
    pub fn eval(&self, dims: &[u64]) -> Option<u64> {
        self.terms
            .iter()
            .try_fold(self.constant, |sum, (dim, factor)| {
                sum.checked_add(dims.get(*dim as usize)?.checked_mul(*factor)?)
            })
    }
}

/// What a run checks of its dimensions before it starts: otherwise the program would read beyond an operand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeCheck {
    /// The op and the operand that it reads, for messages.
    pub label: String,
    /// How many slices of the operand the op reads.
    pub needed: SizeSum,
    /// How many slices the operand has: at least as many, or the run is refused.
    pub available: SizeSum,
}

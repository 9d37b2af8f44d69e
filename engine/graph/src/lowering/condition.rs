//! Conditions on calls: which of several algorithms fits may depend on the sizes of a run.

use serde::{Deserialize, Serialize};

use super::Size;

/// What must hold of a run's sizes for a call to be made; otherwise it is skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCondition {
    /// Pairs of sizes. Each bounds the first by the second: `left <= right`.
    pub bounds: Vec<[Size; 2]>,
    /// True if all bounds must hold; false if not all of them may.
    pub all: bool,
}

impl RunCondition {
    /// Returns the condition that each of these bounds, `left <= right`, holds.
    pub fn all(bounds: impl Into<Vec<[Size; 2]>>) -> RunCondition {
        RunCondition {
            bounds: bounds.into(),
            all: true,
        }
    }

    /// Returns the opposite condition.
    #[must_use]
    pub fn negated(self) -> RunCondition {
        RunCondition {
            all: !self.all,
            ..self
        }
    }

    /// Returns whether the condition holds in a run with these dimensions, or `None` if one of its sizes
    /// cannot be calculated.
    pub fn holds(&self, dims: &[u64]) -> Option<bool> {
        let mut all = true;
        for [left, right] in &self.bounds {
            all &= left.eval(dims)? <= right.eval(dims)?;
        }
        Some(all == self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_of_a_condition_and_its_opposite_holds() {
        let n = |factor| Size {
            factor,
            dims: vec![0],
        };
        let condition = RunCondition::all([[Size::fixed(16), n(1)], [n(3), Size::fixed(90)]]);
        let opposite = condition.clone().negated();
        for (size, expected) in [(15, false), (16, true), (30, true), (31, false)] {
            assert_eq!(condition.holds(&[size]), Some(expected), "{size}");
            assert_eq!(opposite.holds(&[size]), Some(!expected), "{size}");
        }
        assert_eq!(condition.holds(&[u64::MAX]), None);
        assert_eq!(condition.holds(&[]), None);
    }
}

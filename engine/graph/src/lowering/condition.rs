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

    /// Returns false if the condition holds in no run whose dimensions are at most these.
    pub fn may_hold(&self, max_dims: &[u64]) -> bool {
        let least = |size: &Size| if size.dims.is_empty() { size.factor } else { 0 };
        let most = |size: &Size| size.eval(max_dims).unwrap_or(u64::MAX);
        let mut bounds = self.bounds.iter();
        match self.all {
            true => bounds.all(|[left, right]| least(left) <= most(right)),
            false => bounds.any(|[left, right]| most(left) > least(right)),
        }
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

    #[test]
    fn a_condition_may_hold_if_it_does_for_some_sizes_up_to_the_largest() {
        let n = |factor| Size {
            factor,
            dims: vec![0],
        };
        let at_least_16 = RunCondition::all([[Size::fixed(16), n(1)]]);
        let up_to_30 = RunCondition::all([[n(3), Size::fixed(90)]]);
        let never = RunCondition::all([[Size::fixed(2), Size::fixed(1)]]);
        for (max, expected) in [(15, [false, true]), (16, [true, true]), (31, [true, true])] {
            let actual = [&at_least_16, &up_to_30].map(|condition| condition.may_hold(&[max]));
            assert_eq!(actual, expected, "{max}");
        }
        assert!(!up_to_30.clone().negated().may_hold(&[30]));
        assert!(up_to_30.negated().may_hold(&[31]));
        assert!(at_least_16.negated().may_hold(&[u64::MAX]));
        assert!(!never.may_hold(&[9]) && never.negated().may_hold(&[9]));
    }
}

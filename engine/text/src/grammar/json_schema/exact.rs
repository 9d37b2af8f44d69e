//! Which numbers of a schema are calculated with exactly.

use serde_json::Number;

/// The largest integer up to which `f64` holds all.
pub(super) const MAX_EXACT: f64 = 9007199254740992.0;

/// The longest bound, in characters of its decimal notation.
const MAX_CHARACTERS: usize = 24;

/// Returns whether `f64`, with which `llguidance` calculates, holds a number of a schema exactly and shortly.
pub(super) fn is_exact(number: &Number) -> bool {
    let Some(value) = number.as_f64() else {
        return false;
    };
    let is_same = match (number.as_i64(), number.as_u64()) {
        (Some(integer), _) => integer as i128 == value as i128,
        (None, Some(integer)) => integer as i128 == value as i128,
        (None, None) => true,
    };
    is_same && format!("{value}").len() <= MAX_CHARACTERS
}

/// A bound on numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bound {
    pub keyword: &'static str,
    pub value: f64,
    /// The JSON pointer of the schema.
    pub place: String,
}

impl Bound {
    fn is_lower(&self) -> bool {
        self.keyword.ends_with("inimum")
    }

    fn is_exclusive(&self) -> bool {
        self.keyword.starts_with("exclusive")
    }

    /// Returns whether an opposite bound leaves less than one beside this one, a whole number that is excluded:
    /// `llguidance` would accept that number. `opposites` are the values of all opposite bounds in ascending order.
    fn is_lost_beside(&self, opposites: &[f64]) -> bool {
        let nearest = match self.is_lower() {
            true => opposites.get(opposites.partition_point(|other| *other <= self.value)),
            false => opposites[..opposites.partition_point(|other| *other < self.value)].last(),
        };
        self.is_exclusive()
            && self.value.fract() == 0.0
            && nearest.is_some_and(|other| (other - self.value).abs() < 1.0)
    }
}

/// Returns a bound that `llguidance` would not enforce if it met another one of the document.
pub(super) fn lost_bound(bounds: &[Bound]) -> Option<&Bound> {
    let sorted = |is_lower: bool| {
        let values = bounds.iter().filter(|bound| bound.is_lower() == is_lower);
        let mut values: Vec<f64> = values.map(|bound| bound.value).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let (lower, upper) = (sorted(true), sorted(false));
    bounds.iter().find(|bound| match bound.is_lower() {
        true => bound.is_lost_beside(&upper),
        false => bound.is_lost_beside(&lower),
    })
}

/// A `multipleOf`: `coefficient · 10^-exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Multiple {
    pub coefficient: u64,
    pub exponent: u32,
}

impl Multiple {
    /// Reads a number, of which `f64` must hold all multiples exactly: else validators disagree with one another on
    /// what a multiple is.
    pub fn new(value: f64) -> Option<Multiple> {
        let is_exact =
            value > 0.0 && value <= f64::from(u32::MAX) && (value * 1024.0).fract() == 0.0;
        if !is_exact {
            return None;
        }
        let (mut scaled, mut exponent) = (value, 0);
        while scaled.fract() != 0.0 {
            scaled *= 10.0;
            exponent += 1;
        }
        let fits = scaled <= f64::from(u32::MAX);
        fits.then_some(Multiple {
            coefficient: scaled as u64,
            exponent,
        })
    }
}

/// Returns whether the least common multiples of any of these can be calculated in 32 bits, as `llguidance` does.
pub(super) fn can_be_combined(multiples: &[Multiple]) -> bool {
    let exponent = multiples.iter().map(|multiple| multiple.exponent).max();
    let mut scaled: Vec<u64> = Vec::new();
    for multiple in multiples {
        let digits = exponent.unwrap_or(0) - multiple.exponent;
        let Some(factor) = 10_u64.checked_pow(digits) else {
            return false;
        };
        scaled.push(multiple.coefficient.saturating_mul(factor));
    }
    scaled.sort_unstable();
    scaled.dedup();
    let largest = scaled.last().copied().unwrap_or(1);
    let product = scaled
        .iter()
        .fold(largest, |product, x| product.saturating_mul(*x));
    product <= u64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_not_exact_are_found() {
        let number = |text: &str| text.parse::<Number>().unwrap();
        for exact in ["1", "-1.5", "9007199254740992", "0.1", "1e10", "0"] {
            assert!(is_exact(&number(exact)), "{exact}");
        }
        for inexact in [
            "9007199254740993",
            "18446744073709551615",
            "1e300",
            "1e-300",
        ] {
            assert!(!is_exact(&number(inexact)), "{inexact}");
        }
    }

    #[test]
    fn the_first_bound_that_is_lost_beside_another_is_found() {
        let bound = |keyword, value| Bound {
            keyword,
            value,
            place: String::new(),
        };
        let (inner, outer) = ("exclusiveMinimum", "exclusiveMaximum");
        let lost = |bounds: &[Bound]| lost_bound(bounds).map(|bound| (bound.keyword, bound.value));
        let kept = [
            bound(inner, 1.0),
            bound("maximum", 2.0),
            bound("minimum", 1.5),
            bound(outer, 1.0),
        ];
        assert_eq!(lost(&kept), None);
        let lower = [bound("maximum", 5.0), bound("maximum", 1.5)];
        let lower: Vec<Bound> = kept.iter().cloned().chain(lower).collect();
        assert_eq!(lost(&lower), Some((inner, 1.0)));
        let upper = [bound("minimum", -0.25), bound("minimum", 0.5)];
        let upper: Vec<Bound> = kept.iter().cloned().chain(upper).collect();
        assert_eq!(lost(&upper), Some((outer, 1.0)));
    }

    #[test]
    fn multiples_are_exact_and_their_products_fit() {
        let new = |coefficient, exponent| Multiple {
            coefficient,
            exponent,
        };
        assert_eq!(Multiple::new(3.0), Some(new(3, 0)));
        assert_eq!(Multiple::new(1.5), Some(new(15, 1)));
        for wrong in [0.1, 0.0, -1.0, 1e10, f64::NAN] {
            assert_eq!(Multiple::new(wrong), None);
        }
        assert!(can_be_combined(&[new(3, 0), new(5, 1), new(7, 0)]));
        assert!(!can_be_combined(&[new(65537, 0), new(65539, 0)]));
        assert!(!can_be_combined(&[new(70000, 0), new(70000, 0)]));
    }
}

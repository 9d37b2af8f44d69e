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

    /// Returns whether another bound leaves less than one beside this one, a whole number that is excluded:
    /// `llguidance` would accept that number.
    fn is_lost_beside(&self, other: &Bound) -> bool {
        let width = match self.is_lower() {
            true => other.value - self.value,
            false => self.value - other.value,
        };
        let is_opposite = self.is_lower() != other.is_lower();
        self.is_exclusive()
            && self.value.fract() == 0.0
            && is_opposite
            && 0.0 < width
            && width < 1.0
    }
}

/// Returns a bound that `llguidance` would not enforce if it met another one of the document.
pub(super) fn lost_bound(bounds: &[Bound]) -> Option<&Bound> {
    let is_lost = |bound: &&Bound| bounds.iter().any(|other| bound.is_lost_beside(other));
    bounds.iter().find(is_lost)
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

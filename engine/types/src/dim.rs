//! Dimensions: numbers, names of sizes that are known when a program runs, and sums of both.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One dimension of a [`Shape`](crate::Shape).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Dim {
    /// A size that is known when the graph is built.
    Fixed(u64),
    /// The name of a size that is known when the program runs. The same name means the same size
    /// everywhere in a graph.
    Symbol(String),
    /// A sum of symbols and a number, as [`Dim::checked_add`] makes it.
    Sum(DimSum),
}

/// A sum of symbolic dimensions and a number, in canonical form: equal sums compare equal, in whatever
/// order they were added.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DimSum {
    /// The symbols, sorted by name, each with its multiple (at least 1).
    pub terms: Vec<(String, u64)>,
    /// The part that is known when the graph is built.
    pub constant: u64,
}

impl Dim {
    /// Returns the size if it is known when the graph is built.
    pub fn fixed(&self) -> Option<u64> {
        match self {
            Dim::Fixed(size) => Some(*size),
            Dim::Symbol(_) | Dim::Sum(_) => None,
        }
    }

    /// Returns the dimension as a sum, of one term if it is a number or a symbol.
    pub fn to_sum(&self) -> DimSum {
        let (terms, constant) = match self {
            Dim::Fixed(size) => (Vec::new(), *size),
            Dim::Symbol(name) => (vec![(name.clone(), 1)], 0),
            Dim::Sum(sum) => return sum.clone(),
        };
        DimSum { terms, constant }
    }

    /// Computes the size from those of the symbols; `None` if `size_of` does not know a symbol or the sum
    /// overflows.
    pub fn resolve(&self, size_of: impl Fn(&str) -> Option<u64>) -> Option<u64> {
        let sum = self.to_sum();
        let add = |total: u64, (name, multiple): &(String, u64)| {
            total.checked_add(size_of(name)?.checked_mul(*multiple)?)
        };
        sum.terms.iter().try_fold(sum.constant, add)
    }

    /// Adds two dimensions; `None` if a constant or a multiple overflows.
    ///
    /// ```
    /// use wisp_types::Dim;
    ///
    /// let total = Dim::from("past").checked_add(&Dim::from("new")).expect("no overflow");
    /// assert_eq!(total.to_string(), "new + past");
    /// assert_eq!(total.checked_add(&Dim::from(3)), Dim::from(3).checked_add(&total));
    /// assert_eq!(Dim::from(2).checked_add(&Dim::from(3)), Some(Dim::from(5)));
    /// ```
    pub fn checked_add(&self, other: &Dim) -> Option<Dim> {
        let (mut sum, other) = (self.to_sum(), other.to_sum());
        sum.constant = sum.constant.checked_add(other.constant)?;
        for (name, multiple) in other.terms {
            match sum.terms.binary_search_by(|(term, _)| term.cmp(&name)) {
                Ok(at) => sum.terms[at].1 = sum.terms[at].1.checked_add(multiple)?,
                Err(at) => sum.terms.insert(at, (name, multiple)),
            }
        }
        Some(match (sum.terms.as_slice(), sum.constant) {
            ([], size) => Dim::Fixed(size),
            ([(name, 1)], 0) => Dim::Symbol(name.clone()),
            _ => Dim::Sum(sum),
        })
    }

    /// Splits the dimension into a known factor and a symbolic one, which is `None` if the dimension is
    /// fixed: `3*tokens` is `(3, Some(tokens))`, `tokens + 1` is `(1, Some(tokens + 1))`.
    pub fn factored(&self) -> (u64, Option<Dim>) {
        match self {
            Dim::Fixed(size) => (*size, None),
            Dim::Sum(DimSum { terms, constant: 0 }) if terms.len() == 1 => {
                (terms[0].1, Some(Dim::Symbol(terms[0].0.clone())))
            }
            other => (1, Some(other.clone())),
        }
    }
}

impl From<u64> for Dim {
    fn from(size: u64) -> Dim {
        Dim::Fixed(size)
    }
}

impl From<&str> for Dim {
    fn from(name: &str) -> Dim {
        Dim::Symbol(name.into())
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Fixed(size) => write!(f, "{size}"),
            Dim::Symbol(name) => f.write_str(name),
            Dim::Sum(sum) => sum.fmt(f),
        }
    }
}

/// Formats as `2*new + past + 1`.
impl fmt::Display for DimSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let term = |(name, multiple): &(String, u64)| match multiple {
            1 => name.clone(),
            _ => format!("{multiple}*{name}"),
        };
        let mut terms: Vec<String> = self.terms.iter().map(term).collect();
        if self.constant > 0 || terms.is_empty() {
            terms.push(self.constant.to_string());
        }
        f.write_str(&terms.join(" + "))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dim() -> impl Strategy<Value = Dim> {
        let names = prop::sample::select(vec!["a", "b", "c"]);
        prop_oneof![(0u64..4).prop_map(Dim::Fixed), names.prop_map(Dim::from)]
    }

    proptest! {
        #[test]
        fn equal_sums_are_equal_in_whatever_order_they_are_added(
            dims in prop::collection::vec(dim(), 1..8),
        ) {
            let add = |sum: Dim, dim: &Dim| sum.checked_add(dim).expect("no overflow");
            let forwards = dims.iter().fold(Dim::Fixed(0), add);
            let backwards = dims.iter().rev().fold(Dim::Fixed(0), add);
            prop_assert_eq!(&forwards, &backwards);
            let (front, back) = dims.split_at(dims.len() / 2);
            let [front, back] = [front, back].map(|half| half.iter().fold(Dim::Fixed(0), add));
            prop_assert_eq!(forwards, add(front, &back));
        }
    }
}

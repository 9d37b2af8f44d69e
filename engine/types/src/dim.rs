//! Dimensions: known, named, and sums of these.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One dimension of a shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Dim {
    /// Known when the graph is built.
    Fixed(u64),
    /// Known when the program runs; the same name is the same size everywhere.
    Symbol(String),
    /// A sum of such, as [`Dim::checked_add`] makes it.
    Sum(DimSum),
}

/// A sum of named dimensions and a number: of one shape, however it was made.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DimSum {
    /// The names in order, with how often each counts.
    pub terms: Vec<(String, u64)>,
    /// The known part.
    pub constant: u64,
}

impl Dim {
    /// The size, if it is known.
    pub fn fixed(&self) -> Option<u64> {
        match self {
            Dim::Fixed(size) => Some(*size),
            Dim::Symbol(_) | Dim::Sum(_) => None,
        }
    }

    /// The dimension as a sum.
    pub fn to_sum(&self) -> DimSum {
        let (terms, constant) = match self {
            Dim::Fixed(size) => (Vec::new(), *size),
            Dim::Symbol(name) => (vec![(name.clone(), 1)], 0),
            Dim::Sum(sum) => return sum.clone(),
        };
        DimSum { terms, constant }
    }

    /// The size, from those of the names; `None` if one is not known or it overflows.
    pub fn resolve(&self, known: impl Fn(&str) -> Option<u64>) -> Option<u64> {
        let sum = self.to_sum();
        let add = |all: u64, (name, times): &(String, u64)| {
            all.checked_add(known(name)?.checked_mul(*times)?)
        };
        sum.terms.iter().try_fold(sum.constant, add)
    }

    /// Both together; `None` if that overflows.
    ///
    /// ```
    /// use wisp_types::Dim;
    ///
    /// let both = Dim::from("past").checked_add(&Dim::from("new")).expect("no overflow");
    /// assert_eq!(both.to_string(), "new + past");
    /// assert_eq!(both.checked_add(&Dim::from(3)), Dim::from(3).checked_add(&both));
    /// assert_eq!(Dim::from(2).checked_add(&Dim::from(3)), Some(Dim::from(5)));
    /// ```
    pub fn checked_add(&self, other: &Dim) -> Option<Dim> {
        let (mut sum, more) = (self.to_sum(), other.to_sum());
        sum.constant = sum.constant.checked_add(more.constant)?;
        for (name, times) in more.terms {
            match sum.terms.binary_search_by(|(known, _)| known.cmp(&name)) {
                Ok(at) => sum.terms[at].1 = sum.terms[at].1.checked_add(times)?,
                Err(at) => sum.terms.insert(at, (name, times)),
            }
        }
        Some(match (sum.terms.as_slice(), sum.constant) {
            ([], size) => Dim::Fixed(size),
            ([(name, 1)], 0) => Dim::Symbol(name.clone()),
            _ => Dim::Sum(sum),
        })
    }

    /// The dimension as a number times what is known only in a run, if that is anything.
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

impl fmt::Display for DimSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let term = |(name, times): &(String, u64)| match times {
            1 => name.clone(),
            _ => format!("{times}*{name}"),
        };
        let mut parts: Vec<String> = self.terms.iter().map(term).collect();
        if self.constant > 0 || parts.is_empty() {
            parts.push(self.constant.to_string());
        }
        f.write_str(&parts.join(" + "))
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
        /// However a sum is put together, it is the same dimension.
        #[test]
        fn sums_have_one_form(dims in prop::collection::vec(dim(), 1..8)) {
            let add = |sum: Dim, dim: &Dim| sum.checked_add(dim).expect("no overflow");
            let left = dims.iter().fold(Dim::Fixed(0), add);
            let right = dims.iter().rev().fold(Dim::Fixed(0), add);
            prop_assert_eq!(&left, &right);
            let (front, back) = dims.split_at(dims.len() / 2);
            let halves = add(front.iter().fold(Dim::Fixed(0), add), &back.iter().fold(Dim::Fixed(0), add));
            prop_assert_eq!(left, halves);
        }
    }
}

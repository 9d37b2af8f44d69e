//! The table of rotations that the rotation kernels read.

use std::ops::Range;

use super::{frequencies::frequencies, scaling::RopeScaling};
use crate::spec::QueryScaling;

/// The rotations of every position, computed as they are read.
#[derive(Clone, Debug)]
pub(crate) struct Rotations {
    /// Angle per position of each rotated pair.
    frequencies: Vec<f32>,
    /// Factor on cosine and sine.
    factor: f64,
    /// A further factor that grows with the position.
    query_scaling: Option<QueryScaling>,
}

impl Rotations {
    /// The rotations of a context of `length` positions; of queries, if these are scaled by their
    /// position.
    pub fn new(
        theta: f32,
        rotary_dim: u32,
        scaling: &RopeScaling,
        length: u64,
        query_scaling: Option<QueryScaling>,
    ) -> Rotations {
        let (frequencies, factor) = frequencies(theta, rotary_dim, scaling, length);
        Rotations {
            frequencies,
            factor,
            query_scaling,
        }
    }

    /// Computes a range of elements of the table `[length, ceil(rotary_dim / 2), 2]` of the cosine
    /// and sine of every position and pair.
    pub fn elements(&self, range: Range<u64>) -> Vec<f32> {
        let pairs = self.frequencies.len().max(1) as u64;
        let element = |i: u64| {
            let (position, pair) = (i / 2 / pairs, i / 2 % pairs);
            // Reference implementations round the angle to f32.
            let angle = f64::from(position as f32 * self.frequencies[pair as usize]);
            let turn = match i.is_multiple_of(2) {
                true => angle.cos(),
                false => angle.sin(),
            };
            let growth = self.query_scaling.map(|scaling| scaling.factor(position));
            (turn * self.factor * growth.unwrap_or(1.0)) as f32
        };
        range.map(element).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_position_does_not_rotate() {
        let rotations = Rotations::new(10_000.0, 6, &RopeScaling::None, 2, None);
        assert_eq!(rotations.elements(0..6), [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
        assert_eq!(rotations.elements(6..8), [1f32.cos(), 1f32.sin()]);
        assert_eq!(rotations.elements(4..9), rotations.elements(0..12)[4..9]);
    }

    #[test]
    fn queries_grow_beyond_the_trained_context() {
        let scaling = Some(QueryScaling {
            beta: 0.5,
            context: 3.0,
            offset: 0,
            rotated: true,
        });
        let [keys, queries] = [None, scaling]
            .map(|scaling| Rotations::new(10_000.0, 2, &RopeScaling::None, 8, scaling))
            .map(|rotations| rotations.elements(0..16));
        assert_eq!(queries[..6], keys[..6]);
        for (position, factor) in [(3, 1.0 + 0.5 * 2f32.ln()), (7, 1.0 + 0.5 * 3f32.ln())] {
            for i in [2 * position, 2 * position + 1] {
                assert!((queries[i] - factor * keys[i]).abs() < 1e-6, "{position}");
            }
        }
    }
}

//! The table of rotations that the rotation kernels read.

use std::ops::Range;

use super::{frequencies::frequencies, scaling::RopeScaling};

/// The rotations of every position, computed as they are read.
#[derive(Clone, Debug)]
pub(crate) struct Rotations {
    /// Angle per position of each rotated pair.
    frequencies: Vec<f32>,
    /// Factor on cosine and sine.
    factor: f64,
}

impl Rotations {
    /// The rotations of a context of `length` positions.
    pub fn new(theta: f32, rotary_dim: u32, scaling: &RopeScaling, length: u64) -> Rotations {
        let (frequencies, factor) = frequencies(theta, rotary_dim, scaling, length);
        Rotations {
            frequencies,
            factor,
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
            (turn * self.factor) as f32
        };
        range.map(element).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_position_does_not_rotate() {
        let rotations = Rotations::new(10_000.0, 6, &RopeScaling::None, 2);
        assert_eq!(rotations.elements(0..6), [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
        assert_eq!(rotations.elements(6..8), [1f32.cos(), 1f32.sin()]);
        assert_eq!(rotations.elements(4..9), rotations.elements(0..12)[4..9]);
    }
}

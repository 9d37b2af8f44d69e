//! How good a conversion is.

use std::collections::BTreeMap;

use serde::Serialize;

use wisp_types::Encoding;

/// What became of some tensors.
#[derive(Clone, Debug, Default)]
pub struct Errors {
    /// How many tensors.
    pub tensors: u64,
    /// Their weights.
    pub weights: u64,
    /// Bytes that they take now.
    pub bytes: u64,
    /// The encodings that they have now.
    pub encodings: Vec<Encoding>,
    /// The largest difference of one weight.
    pub max_error: f64,
    squared_error: f64,
    squared: f64,
}

impl Errors {
    /// One tensor, of which nothing was compared yet.
    pub(super) fn of(weights: u64, bytes: u64, encoding: Encoding) -> Errors {
        Errors {
            tensors: 1,
            weights,
            bytes,
            encodings: vec![encoding],
            ..Errors::default()
        }
    }

    /// Takes some weights into account: before, and what their encoding makes of them.
    pub(super) fn compare(&mut self, before: &[f32], after: &[f32]) {
        for (&before, &after) in before.iter().zip(after) {
            let off = f64::from(before) - f64::from(after);
            self.squared_error += off * off;
            self.squared += f64::from(before) * f64::from(before);
            self.max_error = self.max_error.max(off.abs());
        }
    }

    /// Adds others.
    pub(super) fn add(&mut self, other: &Errors) {
        self.tensors += other.tensors;
        self.weights += other.weights;
        self.bytes += other.bytes;
        self.max_error = self.max_error.max(other.max_error);
        self.squared_error += other.squared_error;
        self.squared += other.squared;
        for encoding in &other.encodings {
            if !self.encodings.contains(encoding) {
                self.encodings.push(*encoding);
            }
        }
    }

    /// Root-mean-square error, relative to the root-mean-square weight.
    pub fn relative(&self) -> f64 {
        match self.squared {
            0.0 => 0.0,
            squared => (self.squared_error / squared).sqrt(),
        }
    }

    /// Bits that a weight takes.
    pub fn bits(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.weights.max(1) as f64
    }
}

impl Serialize for Errors {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'e> {
            tensors: u64,
            weights: u64,
            bytes: u64,
            bits_per_weight: f64,
            relative_error: f64,
            max_error: f64,
            encodings: Vec<&'e str>,
        }
        Shown {
            tensors: self.tensors,
            weights: self.weights,
            bytes: self.bytes,
            bits_per_weight: self.bits(),
            relative_error: self.relative(),
            max_error: self.max_error,
            encodings: self
                .encodings
                .iter()
                .map(|encoding| encoding.name())
                .collect(),
        }
        .serialize(serializer)
    }
}

/// What a conversion did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// By kind of tensor: `attn_q`, `ffn_down`, ….
    pub kinds: BTreeMap<String, Errors>,
    /// All together.
    pub total: Errors,
    /// What the user should know.
    pub notes: Vec<String>,
}

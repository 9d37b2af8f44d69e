//! Statistics about a conversion.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use wisp_types::Encoding;
use wisp_weights::Checkpoint;

use crate::format_bytes::format_bytes;

/// Statistics about a set of converted tensors.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TensorStats {
    /// The number of tensors.
    pub tensors: u64,
    /// The number of weights in all of these tensors.
    pub weights: u64,
    /// The size of the tensors in their new encodings, in bytes.
    pub bytes: u64,
    /// The new encodings of the tensors, each once.
    pub encodings: Vec<Encoding>,
    /// The largest absolute difference between a weight before and after encoding.
    pub max_error: f64,
    squared_error: f64,
    squared: f64,
}

impl TensorStats {
    /// Returns the statistics of one tensor, before any of its weights is compared.
    pub(super) fn of_tensor(weights: u64, bytes: u64, encoding: Encoding) -> TensorStats {
        TensorStats {
            tensors: 1,
            weights,
            bytes,
            encodings: vec![encoding],
            ..TensorStats::default()
        }
    }

    /// Adds the errors of weights, given their values before and after encoding.
    pub(super) fn compare(&mut self, before: &[f32], after: &[f32]) {
        for (&before, &after) in before.iter().zip(after) {
            let off = f64::from(before) - f64::from(after);
            self.squared_error += off * off;
            self.squared += f64::from(before) * f64::from(before);
            self.max_error = self.max_error.max(off.abs());
        }
    }

    /// Adds the statistics of other tensors.
    pub(super) fn add(&mut self, other: &TensorStats) {
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

    /// Returns the root-mean-square error, relative to the root-mean-square weight.
    pub fn relative_error(&self) -> f64 {
        match self.squared {
            0.0 => 0.0,
            squared => (self.squared_error / squared).sqrt(),
        }
    }

    /// Returns the average number of bits per weight.
    pub fn bits_per_weight(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.weights.max(1) as f64
    }
}

impl Serialize for TensorStats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'e> {
            tensors: u64,
            weights: u64,
            bytes: u64,
            bits_per_weight: f64,
            relative_error: f64,
            max_error: f64,
            encodings: Vec<&'e str>,
        }
        let encodings = self.encodings.iter().map(|encoding| encoding.name());
        Fields {
            tensors: self.tensors,
            weights: self.weights,
            bytes: self.bytes,
            bits_per_weight: self.bits_per_weight(),
            relative_error: self.relative_error(),
            max_error: self.max_error,
            encodings: encodings.collect(),
        }
        .serialize(serializer)
    }
}

/// Statistics about a whole conversion, and notes for the user.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ConvertReport {
    /// Statistics of the tensors by their role in a layer, such as `attn_q` or `ffn_down`.
    pub kinds: BTreeMap<String, TensorStats>,
    /// Statistics of all tensors together.
    pub total: TensorStats,
    /// What the new files lack, and other notes for the user, one sentence each.
    pub notes: Vec<String>,
}

impl ConvertReport {
    /// Adds a note if a new file is larger than the files that it was made from.
    pub(super) fn note_growth(&mut self, new: &std::fs::File, source: &Checkpoint) {
        let old = source.byte_len();
        let new = new.metadata().map_or(0, |metadata| metadata.len());
        if new > old {
            self.notes.push(format!(
                "the new file has {}, more than the {} of the source: a smaller encoding makes it smaller",
                format_bytes(new),
                format_bytes(old)
            ));
        }
    }
}

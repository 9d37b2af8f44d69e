//! Weights without a file: each is a number of its name and place. `golden.py` makes the same.

use std::{borrow::Cow, ops::Range};

use wisp_engine::{
    device::BoxFuture,
    graph::{Dim, Graph, ValueKind},
    weights::{Encoding, TensorInfo, WeightError, WeightSource},
};

/// The weights that a graph names. Any source of numbers can be one: a file, a server, a formula.
pub struct Seeded {
    tensors: Vec<TensorInfo>,
}

impl Seeded {
    /// Those of a graph.
    pub fn of(graph: &Graph) -> Seeded {
        let weights = graph.values().iter();
        let weights = weights.filter(|value| matches!(value.kind, ValueKind::Weight(_)));
        let tensor = |value: &wisp_engine::graph::Value| {
            let shape: Vec<u64> = value.shape.0.iter().filter_map(Dim::fixed).collect();
            TensorInfo::new(&value.name, Encoding::F32, &shape).expect("a weight's size fits")
        };
        Seeded {
            tensors: weights.map(tensor).collect(),
        }
    }

    /// How many numbers there are.
    pub fn count(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.len / 4).sum()
    }
}

/// The last step of MurmurHash3 (Appleby 2011).
fn mixed(mut h: u32) -> u32 {
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

/// Numbers `range` of a tensor.
fn numbers(tensor: &TensorInfo, range: Range<u64>) -> Vec<f32> {
    let seed = tensor.name.bytes().fold(0x811c_9dc5u32, |seed, byte| {
        (seed ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let between = |i: u64| (mixed(mixed(i as u32) ^ seed) >> 8) as f32 * (-23f32).exp2() - 1.0;
    let (factor, base) = match tensor.shape[..] {
        [_, cols] => (1.5 / (cols as f32).sqrt(), 0.0),
        _ if tensor.name.ends_with("LayerNorm.weight") => (0.125, 1.0),
        _ => (0.125, 0.0),
    };
    range.map(|i| between(i) * factor + base).collect()
}

impl WeightSource for Seeded {
    fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    fn read<'a>(
        &'a self,
        name: &'a str,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Cow<'a, [u8]>, WeightError>> {
        let len = self.find(name).map_or(0, |tensor| tensor.len);
        let whole = range.start.is_multiple_of(4) && range.end.is_multiple_of(4);
        let inside = whole && range.start <= range.end && range.end <= len;
        let tensor = self.find(name).filter(|_| inside);
        let bytes = tensor.map(|tensor| {
            let numbers = numbers(tensor, range.start / 4..range.end / 4);
            Cow::Owned(
                numbers
                    .iter()
                    .flat_map(|number| number.to_le_bytes())
                    .collect(),
            )
        });
        let bytes = bytes.ok_or_else(|| WeightError::Range {
            tensor: name.into(),
            start: range.start,
            end: range.end,
            len,
        });
        Box::pin(std::future::ready(bytes))
    }
}

//! Values: the tensors between a graph's ops.

use std::fmt;

use serde::{Deserialize, Serialize};
use wisp_types::{DType, Encoding, Shape};

/// The most dimensions of a tensor that ops on tensors of any rank take.
pub const MAX_RANK: usize = 8;

/// The number of a value in its graph.
///
/// An id belongs to the graph whose method returned it. Another graph's methods panic on an id that is
/// larger than any of their own values', and mean another value by any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ValueId(pub(crate) u32);

impl ValueId {
    /// Returns the value's index in [`Graph::values`](crate::Graph::values).
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueKind {
    /// Written by the caller before a run.
    Input,
    /// Memory that keeps its contents between runs and that ops may write: a KV cache, a sampler's state.
    Buffer,
    /// A tensor of the checkpoint, stored in this encoding.
    Weight(Encoding),
    /// The result of a node.
    Node,
    /// Numbers stored in the graph, by their index in [`Graph::constants`](crate::Graph::constants).
    Constant(u32),
    /// Another value's elements in another shape. The other value is not a view itself.
    View(ValueId),
}

impl ValueKind {
    /// Returns the kind as error messages call it: "an input", "a buffer".
    pub(crate) fn description(&self) -> &'static str {
        match self {
            ValueKind::Input => "an input",
            ValueKind::Buffer => "a buffer",
            ValueKind::Weight(_) => "a weight",
            ValueKind::Node => "the result of an op",
            ValueKind::Constant(_) => "a constant",
            ValueKind::View(_) => "a reshaped view",
        }
    }
}

/// The element type and shape of a tensor; displayed as `f32[n, 8]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// The type of the elements.
    pub dtype: DType,
    /// The shape, outermost dimension first.
    pub shape: Shape,
}

impl TensorType {
    /// The type of a tensor of 32-bit floats.
    pub(crate) fn f32(shape: Shape) -> TensorType {
        TensorType {
            dtype: DType::F32,
            shape,
        }
    }

    /// The type of a tensor of 32-bit unsigned integers.
    pub(crate) fn u32(shape: Shape) -> TensorType {
        TensorType {
            dtype: DType::U32,
            shape,
        }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

/// A tensor of a graph: its name, type, shape and origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// The name: unique among inputs and buffers, and among weights. The result of a node is called after
    /// its op and the node's number, such as `softmax.3`.
    pub name: String,
    /// The type of the elements. A weight is `f32` whatever its encoding: this is what ops read.
    pub dtype: DType,
    /// The shape, outermost dimension first.
    pub shape: Shape,
    /// Where the value comes from.
    pub kind: ValueKind,
}

impl Value {
    /// Returns the number of dimensions.
    pub(crate) fn rank(&self) -> usize {
        self.shape.0.len()
    }

    /// Returns the element type and shape.
    pub fn tensor_type(&self) -> TensorType {
        TensorType {
            dtype: self.dtype,
            shape: self.shape.clone(),
        }
    }
}

/// Returns a shape's number of elements, as a known factor and the symbolic dimensions in order: two
/// shapes with equal counts have the same number of elements in every run.
pub(crate) fn element_count(shape: &Shape) -> (u64, Vec<String>) {
    let mut factor = 1u64;
    let mut symbols = Vec::new();
    for dim in &shape.0 {
        let (known, rest) = dim.factored();
        factor = factor.saturating_mul(known);
        symbols.extend(rest.map(|dim| dim.to_string()));
    }
    symbols.sort_unstable();
    (factor, symbols)
}

//! The memory of a program: ports, weights and references to both.

use serde::{Deserialize, Serialize};
use wisp_graph::lowering::Size;
use wisp_types::{DType, Encoding, Shape};

/// Memory of a program that a call binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BufferRef {
    /// An input or buffer, by its index in [`ProgramParts::inputs`](super::ProgramParts::inputs).
    Input(u32),
    /// A slot of the arena of intermediate results, by its index in
    /// [`ProgramParts::slots`](super::ProgramParts::slots).
    Slot(u32),
    /// A plane of a matrix (0 main, 1 high bits, 2 scales), by the matrix's index in
    /// [`ProgramParts::matrices`](super::ProgramParts::matrices).
    Matrix(u32, u8),
    /// A vector, by its index in [`ProgramParts::vectors`](super::ProgramParts::vectors).
    Vector(u32),
    /// A constant, by its index in [`ProgramParts::constants`](super::ProgramParts::constants).
    Constant(u32),
}

/// Memory that the caller reads or writes by name: an input, a buffer, an output or a printed value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// The name of the input, buffer or output, or the label of the printed value.
    pub name: String,
    /// The type of the elements.
    pub dtype: DType,
    /// The shape, outermost dimension first.
    pub shape: Shape,
    /// The number of elements.
    pub elements: Size,
    /// The memory of the program that holds the elements.
    pub buffer: BufferRef,
}

/// Some rows of a tensor of the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RowRange {
    /// The tensor's name.
    pub tensor: String,
    /// The first row.
    pub start: u64,
    /// The end: one past the last row.
    pub end: u64,
}

/// A matrix of weights on the device: rows of one or several tensors, repacked into planes, few enough to be
/// bound at once. A larger tensor becomes several matrices.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Matrix {
    /// The encoding of the rows.
    pub encoding: Encoding,
    /// Weights in a row.
    pub cols: u64,
    /// The rows, in order.
    pub row_ranges: Vec<RowRange>,
}

impl Matrix {
    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        let ranges = self.row_ranges.iter();
        ranges.map(|range| range.end - range.start).sum()
    }
}

/// Weights that kernels read as plain `f32`, such as norms and biases: whole tensors, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Vector {
    /// The names of the tensors.
    pub tensors: Vec<String>,
    /// The number of elements of all tensors together.
    pub elements: u64,
}

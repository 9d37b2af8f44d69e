//! A program's weights: matrices, split by what the target can bind, and plain vectors.

use wisp_graph::{Graph, ValueId, ValueKind, lowering::LoweringError};
use wisp_types::{Capabilities, Dim, Encoding};

use crate::{
    Switches,
    program::{Matrix, RowRange, Vector},
};

/// Room in the buffer's limit for the alignment of planes.
const ALIGNMENT_ROOM: u64 = 4096;

/// Weights as the program's calls bind them. Equal ones are stored once.
pub(super) struct Weights<'a> {
    pub graph: &'a Graph,
    pub target: &'a Capabilities,
    pub switches: Switches,
    pub matrices: Vec<Matrix>,
    pub vectors: Vec<Vector>,
}

/// A matrix of the program, and which rows of a stack of weights it holds.
pub(super) struct Part {
    /// Index in [`Weights::matrices`].
    pub matrix: u32,
    /// Index of the matrix's first row in the stack.
    pub first_row: u64,
}

/// Returns the index of an element that equals `new`, which is added if there is none.
fn intern<T: PartialEq>(all: &mut Vec<T>, new: T) -> u32 {
    let known = all.iter().position(|other| *other == new);
    known.unwrap_or_else(|| {
        all.push(new);
        all.len() - 1
    }) as u32
}

impl Weights<'_> {
    /// Returns the index of some weights as one vector of plain `f32`.
    pub fn vector(&mut self, weights: &[ValueId], elements: u64) -> u32 {
        let tensors = weights.iter().map(|id| self.graph.value(*id).name.clone());
        let tensors = tensors.collect();
        intern(&mut self.vectors, Vector { tensors, elements })
    }

    /// Returns the encoding, rows and columns of a weight in device memory. The matrices of several experts
    /// count as one with all their rows.
    pub fn shape(
        &self,
        op: &'static str,
        weight: ValueId,
    ) -> Result<(Encoding, u64, u64), LoweringError> {
        let value = self.graph.value(weight);
        let (rows, cols) = match value.shape.0.as_slice() {
            [Dim::Fixed(rows), Dim::Fixed(cols)] => (*rows, *cols),
            [Dim::Fixed(experts), Dim::Fixed(rows), Dim::Fixed(cols)] => {
                (experts.saturating_mul(*rows), *cols)
            }
            _ => return Err(self.not_a_matrix(op, weight)),
        };
        match value.kind {
            ValueKind::Weight(stored) => Ok((self.device_encoding(op, stored, cols), rows, cols)),
            _ => Err(self.not_a_matrix(op, weight)),
        }
    }

    fn not_a_matrix(&self, op: &'static str, weight: ValueId) -> LoweringError {
        LoweringError::Operand {
            op,
            value: self.graph.value(weight).name.clone(),
            wanted: "a weight with two or three fixed dimensions",
        }
    }

    /// Returns the encoding of a weight in device memory, which a switch can make smaller for products.
    fn device_encoding(&self, op: &'static str, stored: Encoding, cols: u64) -> Encoding {
        let whole_blocks = cols.is_multiple_of(Encoding::F8_E4M3.file_block_weights() as u64);
        match self.switches.per_tensor_fp8 && stored.is_float() && whole_blocks && op != "embed" {
            true => Encoding::F8_E4M3,
            false => stored.on_device(),
        }
    }

    /// Returns how many rows the target can bind at once.
    fn rows_limit(&self, encoding: Encoding, cols: u64) -> u64 {
        let row_bytes = encoding.plane_row_bytes(cols);
        let widest = row_bytes.into_iter().max().unwrap_or(0).max(1);
        let total: u64 = row_bytes.iter().sum();
        let in_binding = self.target.max_binding_bytes / widest;
        let in_buffer = self.target.max_buffer_bytes.saturating_sub(ALIGNMENT_ROOM) / total.max(1);
        let limit = in_binding.min(in_buffer);
        // Whole groups of rows: every plane's part of a matrix is then a whole number of words.
        if limit >= 32 { limit / 32 * 32 } else { limit }
    }

    /// Splits the rows of stacked weights of one encoding into matrices that can be bound.
    pub fn split(
        &mut self,
        op: &'static str,
        weights: &[ValueId],
    ) -> Result<Vec<Part>, LoweringError> {
        let (encoding, _, cols) = self.shape(op, weights[0])?;
        let limit = self.rows_limit(encoding, cols);
        let mut parts = Vec::new();
        let (mut row_ranges, mut filled, mut first_row) = (Vec::new(), 0, 0);
        for weight in weights {
            let tensor = self.graph.value(*weight).name.clone();
            let (_, rows, _) = self.shape(op, *weight)?;
            if limit == 0 {
                let row_bytes = encoding.plane_row_bytes(cols);
                return Err(LoweringError::RowTooLarge {
                    tensor,
                    bytes: row_bytes.into_iter().max().unwrap_or(0).max(1),
                    limit: self.target.max_binding_bytes,
                });
            }
            u32::try_from(rows).map_err(|_| LoweringError::TooLarge {
                op,
                what: "the weight's number of rows",
                value: rows,
            })?;
            let mut row = 0;
            while row < rows {
                let taken = (rows - row).min(limit - filled);
                row_ranges.push(RowRange {
                    tensor: tensor.clone(),
                    start: row,
                    end: row + taken,
                });
                row += taken;
                filled += taken;
                if filled == limit {
                    let row_ranges = std::mem::take(&mut row_ranges);
                    parts.push(self.part(encoding, cols, row_ranges, first_row));
                    first_row += filled;
                    filled = 0;
                }
            }
        }
        if filled > 0 {
            parts.push(self.part(encoding, cols, row_ranges, first_row));
        }
        Ok(parts)
    }

    fn part(
        &mut self,
        encoding: Encoding,
        cols: u64,
        row_ranges: Vec<RowRange>,
        first_row: u64,
    ) -> Part {
        let matrix = Matrix {
            encoding,
            cols,
            row_ranges,
        };
        Part {
            matrix: intern(&mut self.matrices, matrix),
            first_row,
        }
    }
}

//! The device memory that a program takes.

use std::collections::HashMap;

use wisp_graph::lowering::Size;
use wisp_types::{BINDING_ALIGNMENT, PARAMS_STRIDE, allocated_bytes};

use crate::program::{Matrix, Program};

/// The bytes of device memory that a program takes. A size that does not fit 64 bits is `u64::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Footprint {
    /// Repacked weights, and constants.
    pub weights: u64,
    /// Buffers that keep their contents between runs, mostly the KV cache.
    pub buffers: u64,
    /// Inputs, intermediate results and parameter blocks.
    pub working: u64,
}

impl Footprint {
    /// Returns the sum of all parts.
    pub fn total(&self) -> u64 {
        self.weights
            .saturating_add(self.buffers)
            .saturating_add(self.working)
    }

    /// Returns the sum of this footprint and another.
    pub fn and(self, other: Footprint) -> Footprint {
        Footprint {
            weights: self.weights.saturating_add(other.weights),
            buffers: self.buffers.saturating_add(other.buffers),
            working: self.working.saturating_add(other.working),
        }
    }
}

/// The offsets of a matrix's planes in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixLayout {
    /// Offset and length in bytes of each plane: main, high bits, scales.
    pub planes: [(u64, u64); 3],
    /// Size of the whole buffer in bytes.
    pub bytes: u64,
}

impl Matrix {
    /// Returns the offsets of the matrix's planes in its buffer.
    pub fn layout(&self) -> MatrixLayout {
        let mut planes = [(0, 0); 3];
        let mut end = 0u64;
        let row_bytes = self.encoding.plane_row_bytes(self.cols);
        for (plane, row_bytes) in planes.iter_mut().zip(row_bytes) {
            let bytes = (row_bytes * self.rows()).next_multiple_of(16);
            *plane = (end, bytes);
            end = (end + bytes).next_multiple_of(BINDING_ALIGNMENT);
        }
        MatrixLayout { planes, bytes: end }
    }
}

impl Program {
    /// Returns the device memory that the program takes if its symbolic dimensions are at most
    /// `max_dims`; a dimension that is not given counts as 0. Inputs and buffers named in `shared`
    /// belong to another program and are not counted.
    pub fn footprint(&self, max_dims: &HashMap<String, u64>, shared: &[&str]) -> Footprint {
        let sizes = self.sizes(|name| Some(max_dims.get(name).copied().unwrap_or(0)));
        // Only an overflowing sum of dimensions fails here. Then no dimension has a size, and whatever depends on one
        // counts as `u64::MAX`.
        let sizes = sizes.unwrap_or_default();
        let bytes_of = |size: &Size| {
            let elements = size.eval(&sizes);
            let bytes = elements.and_then(|elements| elements.checked_mul(4));
            bytes.map_or(u64::MAX, allocated_bytes)
        };
        let (mut buffers, mut working) = (0u64, 0u64);
        for (i, port) in (0u32..).zip(&self.inputs) {
            if shared.contains(&port.name.as_str()) {
                continue;
            }
            let kind = match self.buffers.contains(&i) {
                true => &mut buffers,
                false => &mut working,
            };
            *kind = kind.saturating_add(bytes_of(&port.elements));
        }
        for sizes in &self.slots {
            let bytes = sizes.iter().map(bytes_of).max();
            working = working.saturating_add(bytes.unwrap_or(allocated_bytes(0)));
        }
        working = working.saturating_add(allocated_bytes(self.calls.len() as u64 * PARAMS_STRIDE));
        Footprint {
            weights: self.weight_bytes(),
            buffers,
            working,
        }
    }

    /// Returns the bytes that all weights and constants take on a device.
    fn weight_bytes(&self) -> u64 {
        let matrices = self.matrices.iter();
        let matrices = matrices.map(|matrix| matrix.layout().bytes);
        let vectors = self.vectors.iter();
        let vectors = vectors.map(|vector| vector.elements.saturating_mul(4));
        let constants = self.constants.iter();
        let constants = constants.map(|words| (words.len() as u64).saturating_mul(4));
        let all = matrices.chain(vectors).chain(constants);
        all.map(allocated_bytes).fold(0, u64::saturating_add)
    }
}

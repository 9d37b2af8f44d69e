//! How much memory a program will take, from the program alone.

use std::collections::HashMap;

use super::{Matrix, Program, Size};
use wisp_types::PARAMS_STRIDE;
use wisp_types::encoding::PLANE_ALIGN;

/// Bytes of device memory that a program takes. Sizes that overflow are `u64::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Footprint {
    /// Weights, repacked.
    pub weights: u64,
    /// Buffers that outlive a run: the KV cache above all.
    pub buffers: u64,
    /// Inputs, intermediate results and parameters.
    pub working: u64,
}

impl Footprint {
    /// Everything together.
    pub fn total(&self) -> u64 {
        self.weights
            .saturating_add(self.buffers)
            .saturating_add(self.working)
    }

    /// What this and another program take.
    pub fn and(self, other: Footprint) -> Footprint {
        Footprint {
            weights: self.weights.saturating_add(other.weights),
            buffers: self.buffers.saturating_add(other.buffers),
            working: self.working.saturating_add(other.working),
        }
    }
}

/// Where the planes (main, high, scales) of a matrix stand in its buffer, as starts and lengths, and
/// the buffer's size.
pub fn planes(matrix: &Matrix) -> ([(u64, u64); 3], u64) {
    let mut planes = [(0, 0); 3];
    let mut end = 0u64;
    let rows = matrix.encoding.plane_row_bytes(matrix.cols);
    for (plane, row_bytes) in planes.iter_mut().zip(rows) {
        let bytes = (row_bytes * matrix.rows()).next_multiple_of(16);
        *plane = (end, bytes);
        end = (end + bytes).next_multiple_of(PLANE_ALIGN);
    }
    (planes, end)
}

impl Program {
    /// What the program takes when its symbolic dimensions are at most these. Inputs and buffers
    /// named in `shared` are another program's and not counted.
    pub fn footprint(&self, max_dims: &HashMap<String, u64>, shared: &[&str]) -> Footprint {
        let sizes = self.sizes(|name| Some(max_dims.get(name).copied().unwrap_or(0)));
        // Only a sum that overflows is an error here; its memory is then counted as all there can be.
        let sizes = sizes.unwrap_or_default();
        let allocated = |bytes: u64| {
            let bytes = bytes.max(1).checked_next_multiple_of(16);
            bytes.unwrap_or(u64::MAX)
        };
        let bytes = |size: &Size| {
            let elements = size.eval(&sizes);
            let bytes = elements.and_then(|elements| elements.checked_mul(4));
            bytes.map_or(u64::MAX, allocated)
        };
        let sum = |all: &mut dyn Iterator<Item = u64>| all.fold(0u64, u64::saturating_add);
        let ports = |outlive: bool| {
            let own = self.inputs.iter().enumerate().filter(move |(i, port)| {
                self.buffers.contains(&(*i as u32)) == outlive
                    && !shared.contains(&port.name.as_str())
            });
            own.map(|(_, port)| bytes(&port.elements))
        };
        let slots = self
            .slots
            .iter()
            .map(|sizes| sizes.iter().map(bytes).max().unwrap_or(allocated(0)));
        let params = allocated(self.calls.len() as u64 * PARAMS_STRIDE);
        let matrices = self
            .matrices
            .iter()
            .map(|matrix| allocated(planes(matrix).1));
        let vectors = self
            .vectors
            .iter()
            .map(|vector| allocated(vector.elements.saturating_mul(4)));
        let constants = self
            .constants
            .iter()
            .map(|words| allocated((words.len() as u64).saturating_mul(4)));
        Footprint {
            weights: sum(&mut matrices.chain(vectors).chain(constants)),
            buffers: sum(&mut ports(true)),
            working: sum(&mut ports(false).chain(slots).chain([params])),
        }
    }
}

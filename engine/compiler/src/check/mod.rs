//! Checks of programs that come from a file: no index leads outside the program, no size overflows, and every
//! call fits its kernels.
//!
//! This keeps a session from panicking. It does not make kernels safe that read by indices they compute: a
//! session compiles the kernels of such a program with the device's own bounds checks.

mod calls;
mod error;

use std::collections::HashSet;

use wisp_graph::lowering::Size;
use wisp_types::Shape;

use crate::program::{BufferRef, Matrix, Port, Program, ProgramParts, SizeSum};

pub use error::{CallProblem, ProgramError, ProgramProblem};

/// The most bytes of weights that a program may name: sums of a few of these do not overflow.
const MAX_WEIGHT_BYTES: u64 = 1 << 56;

/// The most symbolic dimensions of a size.
const MAX_SIZE_DIMS: usize = 8;

impl TryFrom<ProgramParts> for Program {
    type Error = ProgramError;

    /// Makes a program of parts that pass the [check](ProgramParts::check).
    fn try_from(parts: ProgramParts) -> Result<Program, ProgramError> {
        parts.check()?;
        Ok(Program::compiled(parts))
    }
}

type Checked = Result<(), ProgramProblem>;

impl ProgramParts {
    /// Checks that this build can bind and run a program of these parts without a panic.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ProgramError> {
        self.check_parts().map_err(|problem| ProgramError {
            program: self.name.clone(),
            problem: Box::new(problem),
        })
    }

    fn check_parts(&self) -> Checked {
        check_unique("dimensions", &self.dims)?;
        self.check_sums()?;
        self.check_ports()?;
        self.check_weights()?;
        for (i, sizes) in self.slots.iter().enumerate() {
            for size in sizes {
                self.check_size(size, || format!("slot {i}"))?;
            }
        }
        self.check_stages()?;
        self.check_custom_kernels()?;
        for (index, call) in self.calls.iter().enumerate() {
            self.check_call(call)
                .map_err(|problem| ProgramProblem::Call {
                    index,
                    label: call.label.clone(),
                    problem,
                })?;
        }
        Ok(())
    }

    fn check_stages(&self) -> Checked {
        let calls = self.calls.len();
        let mut done = 0;
        for stage in &self.stages {
            let end = stage.calls as usize;
            if !(done..=calls).contains(&end) {
                return Err(ProgramProblem::Stages { calls, end });
            }
            done = end;
            for output in &stage.outputs {
                let slot = BufferRef::Slot(output.slot);
                self.check_buffer(slot, &output.name)?;
                self.check_size(&output.elements, || format!("{:?}", output.name))?;
                self.check_slot(slot, &output.elements, &output.name)?;
            }
        }
        match done == calls || self.stages.is_empty() {
            true => Ok(()),
            false => Err(ProgramProblem::Stages { calls, end: done }),
        }
    }

    /// Checks that memory is a slot that was planned for this number of elements.
    fn check_slot(&self, buffer: BufferRef, elements: &Size, name: &str) -> Checked {
        let sizes = match buffer {
            BufferRef::Slot(slot) => self.slots.get(slot as usize),
            _ => None,
        };
        match sizes.is_some_and(|sizes| sizes.contains(elements)) {
            true => Ok(()),
            false => Err(ProgramProblem::Slot { name: name.into() }),
        }
    }

    /// Checks the kernels of custom ops as those of a user's are.
    fn check_custom_kernels(&self) -> Checked {
        let mut names = HashSet::new();
        for kernel in &self.custom_kernels {
            kernel.get().map_err(|error| ProgramProblem::CustomKernel {
                op: kernel.op.clone(),
                problem: error.to_string(),
            })?;
            if !names.insert(&kernel.name) {
                return Err(ProgramProblem::DuplicateName {
                    what: "kernels of custom ops",
                    name: kernel.op.clone(),
                });
            }
        }
        Ok(())
    }

    /// True if a size is the product of a few dimensions that exist.
    fn is_valid_size(&self, size: &Size) -> bool {
        let mut dims = size.dims.iter();
        size.dims.len() <= MAX_SIZE_DIMS && dims.all(|dim| (*dim as usize) < self.dims.len())
    }

    fn check_size(&self, size: &Size, what: impl FnOnce() -> String) -> Checked {
        match self.is_valid_size(size) {
            true => Ok(()),
            false => Err(ProgramProblem::Size {
                what: what(),
                dims: size.dims.clone(),
            }),
        }
    }

    fn check_sums(&self) -> Checked {
        let is_valid =
            |sum: &SizeSum, dims: usize| sum.terms.iter().all(|(dim, _)| (*dim as usize) < dims);
        let mut after = 0;
        for (dim, sum) in &self.sums {
            let at = *dim as usize;
            if !(after..self.dims.len()).contains(&at) || !is_valid(sum, at) {
                return Err(ProgramProblem::Sum { dim: *dim });
            }
            after = at + 1;
        }
        for check in &self.size_checks {
            let sums = [&check.needed, &check.available];
            if !sums.iter().all(|sum| is_valid(sum, self.dims.len())) {
                let label = check.label.clone();
                return Err(ProgramProblem::SizeCheck { label });
            }
        }
        Ok(())
    }

    fn check_ports(&self) -> Checked {
        check_unique("inputs", self.inputs.iter().map(|port| &port.name))?;
        for (i, port) in (0u32..).zip(&self.inputs) {
            let expected = BufferRef::Input(i);
            if port.buffer != expected {
                return Err(ProgramProblem::InputBuffer {
                    name: port.name.clone(),
                    expected,
                    actual: port.buffer,
                });
            }
            self.check_port(port)?;
        }
        for port in self.outputs.iter().chain(&self.prints) {
            self.check_port(port)?;
        }
        for port in &self.prints {
            self.check_slot(port.buffer, &port.elements, &port.name)?;
        }
        let inputs = self.inputs.len();
        let mut buffers = self.buffers.iter();
        match buffers.find(|buffer| **buffer as usize >= inputs) {
            None => Ok(()),
            Some(index) => Err(ProgramProblem::BufferIndex {
                index: *index,
                inputs,
            }),
        }
    }

    fn check_port(&self, port: &Port) -> Checked {
        self.check_buffer(port.buffer, &port.name)?;
        self.check_size(&port.elements, || format!("{:?}", port.name))?;
        match self.elements(&port.shape).as_ref() == Some(&port.elements) {
            true => Ok(()),
            false => Err(ProgramProblem::Elements {
                name: port.name.clone(),
                shape: port.shape.to_string(),
            }),
        }
    }

    /// Returns the number of a shape's elements, as the compiler counts them.
    fn elements(&self, shape: &Shape) -> Option<Size> {
        let mut size = Size::fixed(1);
        for dim in &shape.0 {
            let (known, rest) = dim.factored();
            size.factor = size.factor.saturating_mul(known);
            if let Some(rest) = rest {
                let name = rest.to_string();
                let dim = self.dims.iter().position(|dim| *dim == name)?;
                size.dims.push(dim as u32);
            }
        }
        size.dims.sort_unstable();
        Some(size)
    }

    /// True if the program has the memory.
    fn has_buffer(&self, buffer: BufferRef) -> bool {
        let (index, len) = match buffer {
            BufferRef::Input(i) => (i, self.inputs.len()),
            BufferRef::Slot(i) => (i, self.slots.len()),
            BufferRef::Vector(i) => (i, self.vectors.len()),
            BufferRef::Constant(i) => (i, self.constants.len()),
            BufferRef::Matrix(i, plane) => {
                let planes = self.matrices.get(i as usize);
                let planes = planes.map(|matrix| matrix.encoding.has_plane());
                let stored = planes.and_then(|planes| planes.get(usize::from(plane)).copied());
                return stored == Some(true);
            }
        };
        (index as usize) < len
    }

    fn check_buffer(&self, buffer: BufferRef, name: &str) -> Checked {
        match self.has_buffer(buffer) {
            true => Ok(()),
            false => Err(ProgramProblem::NoBuffer {
                what: format!("{name:?}"),
                buffer,
            }),
        }
    }

    pub(crate) fn check_weights(&self) -> Checked {
        let matrices = self.matrices.iter();
        let matrices = matrices.map(|matrix| matrix_bytes(matrix).unwrap_or(u64::MAX));
        let vectors = self.vectors.iter();
        let vectors = vectors.map(|vector| vector.elements.saturating_mul(4));
        let total = matrices.chain(vectors).fold(0, u64::saturating_add);
        match total <= MAX_WEIGHT_BYTES {
            true => Ok(()),
            false => Err(ProgramProblem::Weights),
        }
    }
}

fn check_unique<'a>(what: &'static str, names: impl IntoIterator<Item = &'a String>) -> Checked {
    let mut known = HashSet::new();
    let mut names = names.into_iter();
    match names.find(|name| !known.insert(*name)) {
        None => Ok(()),
        Some(name) => Err(ProgramProblem::DuplicateName {
            what,
            name: name.clone(),
        }),
    }
}

/// Returns the bytes of a matrix in its file or on a device, whichever are more; `None` if it has no rows,
/// rows of incomplete blocks, or more bytes than fit 64 bits.
fn matrix_bytes(matrix: &Matrix) -> Option<u64> {
    let mut rows = 0u64;
    for range in &matrix.row_ranges {
        let count = range.end.checked_sub(range.start)?;
        rows = rows.checked_add(count).filter(|_| count > 0)?;
    }
    let cols = Some(matrix.cols).filter(|cols| (1..=u64::from(u32::MAX)).contains(cols))?;
    let in_file = matrix.encoding.file_row_bytes(cols)?;
    let on_device: u64 = matrix.encoding.plane_row_bytes(cols).iter().sum();
    (rows > 0).then(|| in_file.max(on_device).checked_mul(rows))?
}

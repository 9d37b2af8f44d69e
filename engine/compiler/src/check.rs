//! Checks of a program that comes from a file: whatever stands in it, no index leads outside the
//! program, no size overflows, and every call fits its kernels.
//!
//! This keeps the session from panicking. What kernels read and write is checked where they run: those
//! of a program from a file are compiled with the device's own bounds checks.

use std::collections::HashSet;

use wisp_shaders::{Access, Kernel};

use super::{BufferRef, Call, Matrix, PARAMS_STRIDE, ParamWord, Port, Program, Size, Sum};
use wisp_types::Shape;

/// Occurs when a program contradicts itself or this build's kernels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program {program:?}: {problem}")]
pub struct ProgramError {
    /// The program's name.
    pub program: String,
    /// What is wrong with it.
    pub problem: String,
}

/// The most bytes of weights that a program may name: sums of a few of these do not overflow.
const MOST_BYTES: u64 = 1 << 56;

/// The most symbolic dimensions of a size.
const MOST_DIMS: usize = 8;

type Checked = Result<(), String>;

fn require(holds: bool, problem: impl FnOnce() -> String) -> Checked {
    match holds {
        true => Ok(()),
        false => Err(problem()),
    }
}

impl Program {
    /// Checks that the program is one that this build can bind and run without a panic.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), ProgramError> {
        self.checked().map_err(|problem| ProgramError {
            program: self.name.clone(),
            problem,
        })
    }

    fn checked(&self) -> Checked {
        let mut names = HashSet::new();
        for name in &self.dims {
            require(names.insert(name), || format!("two dimensions {name:?}"))?;
        }
        self.check_sums()?;
        self.check_ports()?;
        self.check_weights()?;
        for (i, sizes) in self.slots.iter().enumerate() {
            for size in sizes {
                self.check_size(size)
                    .map_err(|p| format!("slot {i}: {p}"))?;
            }
        }
        self.check_stages()?;
        self.check_customs()?;
        for (i, call) in self.calls.iter().enumerate() {
            let at = |problem| format!("call {i} ({}): {problem}", call.label);
            self.check_call(call).map_err(at)?;
        }
        Ok(())
    }

    fn check_stages(&self) -> Checked {
        let mut done = 0;
        for stage in &self.stages {
            require(
                (done..=self.calls.len()).contains(&(stage.calls as usize)),
                || "its stages are not in order".into(),
            )?;
            done = stage.calls as usize;
            for made in &stage.made {
                self.check_place(BufferRef::Slot(made.slot))?;
                self.check_size(&made.elements)?;
                require(
                    self.is_slot(BufferRef::Slot(made.slot), &made.elements),
                    || format!("{:?} does not fit its slot", made.name),
                )?;
            }
        }
        require(done == self.calls.len() || self.stages.is_empty(), || {
            "calls in no stage".into()
        })
    }

    /// True if a slot was made for that many elements.
    fn is_slot(&self, place: BufferRef, elements: &Size) -> bool {
        let BufferRef::Slot(slot) = place else {
            return false;
        };
        let sizes = self.slots.get(slot as usize);
        sizes.is_some_and(|sizes| sizes.contains(elements))
    }

    /// Checks the kernels that it brings, as those of a library's user are.
    fn check_customs(&self) -> Checked {
        let mut names = HashSet::new();
        for custom in &self.customs {
            custom.get().map_err(|error| error.to_string())?;
            require(names.insert(&custom.name), || {
                format!("two kernels of {:?}", custom.op)
            })?;
        }
        Ok(())
    }

    fn check_size(&self, size: &Size) -> Checked {
        let known = size
            .dims
            .iter()
            .all(|dim| (*dim as usize) < self.dims.len());
        require(known && size.dims.len() <= MOST_DIMS, || {
            format!(
                "a size of unknown dimensions, or of too many: {:?}",
                size.dims
            )
        })
    }

    fn check_sums(&self) -> Checked {
        let known =
            |sum: &Sum, dims: usize| sum.terms.iter().all(|(dim, _)| (*dim as usize) < dims);
        let mut after = 0;
        for (dim, sum) in &self.sums {
            let at = *dim as usize;
            let holds = (after..self.dims.len()).contains(&at) && known(sum, at);
            require(holds, || {
                format!("dimension {dim} is no sum of earlier ones")
            })?;
            after = at + 1;
        }
        for bound in &self.bounds {
            let holds = [&bound.needed, &bound.available];
            let holds = holds.iter().all(|sum| known(sum, self.dims.len()));
            require(holds, || {
                format!("a bound of unknown dimensions: {}", bound.label)
            })?;
        }
        Ok(())
    }

    fn check_ports(&self) -> Checked {
        let mut names = HashSet::new();
        for (i, port) in self.inputs.iter().enumerate() {
            require(names.insert(&port.name), || {
                format!("two inputs {:?}", port.name)
            })?;
            require(port.place == BufferRef::Input(i as u32), || {
                format!("the input {:?} is not where it should be", port.name)
            })?;
            self.check_port(port)?;
        }
        for port in self.outputs.iter().chain(&self.prints) {
            self.check_port(port)?;
        }
        for port in &self.prints {
            require(self.is_slot(port.place, &port.elements), || {
                format!("what {:?} prints is not in memory of its size", port.name)
            })?;
        }
        let known = |buffer: &u32| (*buffer as usize) < self.inputs.len();
        require(self.buffers.iter().all(known), || {
            "a buffer that is no input".into()
        })
    }

    fn check_port(&self, port: &Port) -> Checked {
        self.check_place(port.place)?;
        self.check_size(&port.elements)?;
        require(
            self.elements(&port.shape).as_ref() == Some(&port.elements),
            || format!("the elements of {:?} are not its shape's", port.name),
        )
    }

    /// The elements of a shape, as the compiler counts them.
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

    fn check_place(&self, place: BufferRef) -> Checked {
        let (index, len) = match place {
            BufferRef::Input(i) => (i, self.inputs.len()),
            BufferRef::Slot(i) => (i, self.slots.len()),
            BufferRef::Vector(i) => (i, self.vectors.len()),
            BufferRef::Constant(i) => (i, self.constants.len()),
            BufferRef::Matrix(i, plane) => {
                let matrix = self.matrices.get(i as usize);
                let planes = matrix.map(|matrix| matrix.encoding.has_plane());
                let has = planes.and_then(|planes| planes.get(usize::from(plane)).copied());
                require(has != Some(false), || {
                    format!("{place:?} has no such plane")
                })?;
                (
                    if has.is_some() { i } else { u32::MAX },
                    self.matrices.len(),
                )
            }
        };
        require((index as usize) < len, || format!("{place:?} is not there"))
    }

    fn check_weights(&self) -> Checked {
        let mut total = 0u64;
        for matrix in &self.matrices {
            let bytes = matrix_bytes(matrix);
            total = total.saturating_add(bytes.unwrap_or(u64::MAX));
        }
        for vector in &self.vectors {
            total = total.saturating_add(vector.elements.saturating_mul(4));
        }
        require(total <= MOST_BYTES, || {
            "matrices without rows, of parts of blocks, or larger than any file".into()
        })
    }

    fn check_call(&self, call: &Call) -> Checked {
        let mut kernels: Vec<&Kernel> = Vec::with_capacity(call.kernels.len().min(16));
        for (name, rows) in &call.kernels {
            let kernel = self.kernel(name);
            let kernel = kernel.ok_or_else(|| format!("there is no kernel {name:?}"))?;
            require(kernel.max_rows_y == *rows, || {
                format!("{name} is not for {rows} rows")
            })?;
            kernels.push(kernel);
        }
        let (Some(first), Some(last)) = (kernels.first(), kernels.last()) else {
            return Err("no kernel".into());
        };
        require(last.max_rows_y == u32::MAX, || {
            "no kernel for many rows".into()
        })?;
        for kernel in &kernels {
            require(
                kernel.op == first.op && kernel.bindings == first.bindings,
                || format!("{} does not do what {} does", kernel.name, first.name),
            )?;
        }
        let words = call.params.len() as u64;
        require((1..=PARAMS_STRIDE / 4).contains(&words), || {
            format!("{words} words of parameters")
        })?;
        let memory = first.bindings.get(1..).unwrap_or_default();
        require(memory.len() == call.bindings.len(), || {
            format!(
                "{} bindings, but {} takes {}",
                call.bindings.len(),
                first.name,
                memory.len()
            )
        })?;
        for (place, access) in call.bindings.iter().zip(memory) {
            self.check_place(*place)?;
            let weight = matches!(
                place,
                BufferRef::Matrix(..) | BufferRef::Vector(_) | BufferRef::Constant(_)
            );
            require(!(weight && *access == Access::Write), || {
                "it writes a weight".into()
            })?;
        }
        let late = call.params.iter().filter_map(|word| match word {
            ParamWord::Const(_) => None,
            ParamWord::Size(size) => Some(size),
        });
        let workgroups = call.workgroups.iter().flatten();
        let workgroups = workgroups.flat_map(|expression| expression.leaves());
        for size in late.chain(&call.grid).chain(workgroups) {
            self.check_size(size)?;
        }
        let is_custom = |(name, _): &(String, u32)| wisp_shaders::kernel(name).is_none();
        let (any, all) = (
            call.kernels.iter().any(is_custom),
            call.kernels.iter().all(is_custom),
        );
        let custom = call.workgroups.is_some();
        require(any == custom && all == custom, || {
            "only custom ops have workgroups of their own, and all of them".into()
        })?;
        Ok(())
    }
}

/// Bytes of a matrix, in its file or on a device, whichever are more; `None` if it has no rows or no
/// whole number of blocks, or if that overflows.
fn matrix_bytes(matrix: &Matrix) -> Option<u64> {
    let mut rows = 0u64;
    for piece in &matrix.pieces {
        rows = rows.checked_add(
            piece
                .end
                .checked_sub(piece.start)
                .filter(|rows| *rows > 0)?,
        )?;
    }
    let cols = Some(matrix.cols).filter(|cols| (1..=u64::from(u32::MAX)).contains(cols))?;
    let in_file = matrix.encoding.file_row_bytes(cols)?;
    let on_device: u64 = matrix.encoding.plane_row_bytes(cols).iter().sum();
    (rows > 0).then(|| in_file.max(on_device).checked_mul(rows))?
}

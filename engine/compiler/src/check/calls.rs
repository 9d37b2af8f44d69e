//! Checks of a program's kernel calls.

use wisp_graph::lowering::{ParamWord, Size};
use wisp_shaders::{Access, Kernel};
use wisp_types::PARAMS_STRIDE;

use super::CallProblem;
use crate::program::{BufferRef, Call, KernelChoice, ProgramParts};

/// The most words of a call's parameters.
const MAX_PARAM_WORDS: u64 = PARAMS_STRIDE / 4;

/// The ops that measure a device. No program has them, and their parameters let them run for hours.
const MEASURING: [&str; 2] = ["measure_fma", "measure_read"];

type Checked = Result<(), CallProblem>;

impl ProgramParts {
    /// Checks that a call fits its kernels, and refers only to what the program has.
    pub(super) fn check_call(&self, call: &Call) -> Checked {
        let kernel = self.check_kernels(call)?;
        if !(1..=MAX_PARAM_WORDS).contains(&(call.params.len() as u64)) {
            return Err(CallProblem::Params {
                actual: call.params.len(),
                most: MAX_PARAM_WORDS,
            });
        }
        self.check_bindings(call, kernel)?;
        self.check_call_sizes(call)?;
        let is_custom = |choice: &KernelChoice| wisp_shaders::kernel(&choice.name).is_none();
        let custom = call.workgroups.is_some();
        match call
            .kernels
            .iter()
            .all(|choice| is_custom(choice) == custom)
        {
            true => Ok(()),
            false => Err(CallProblem::Workgroups),
        }
    }

    /// Checks that the kernels are variants of one op, and returns the first.
    fn check_kernels(&self, call: &Call) -> Result<&'static Kernel, CallProblem> {
        let mut first: Option<&'static Kernel> = None;
        let mut last_max_rows = 0;
        for KernelChoice { name, max_rows } in &call.kernels {
            let kernel = self
                .kernel(name)
                .filter(|kernel| !MEASURING.contains(&kernel.op));
            let kernel = kernel.ok_or_else(|| CallProblem::UnknownKernel { name: name.clone() })?;
            if !(1..=kernel.max_grid_y).contains(max_rows) {
                return Err(CallProblem::MaxRows {
                    kernel: kernel.name,
                    expected: kernel.max_grid_y,
                    actual: *max_rows,
                });
            }
            let first = *first.get_or_insert(kernel);
            if kernel.op != first.op || kernel.bindings != first.bindings {
                return Err(CallProblem::DifferentOps {
                    first: first.name,
                    second: kernel.name,
                });
            }
            last_max_rows = *max_rows;
        }
        match first {
            Some(first) if last_max_rows == u32::MAX => Ok(first),
            _ => Err(CallProblem::NoKernel),
        }
    }

    fn check_bindings(&self, call: &Call, kernel: &'static Kernel) -> Checked {
        // Binding 0 holds the parameters.
        let accesses = kernel.bindings.get(1..).unwrap_or_default();
        if accesses.len() != call.bindings.len() {
            return Err(CallProblem::Bindings {
                kernel: kernel.name,
                expected: accesses.len(),
                actual: call.bindings.len(),
            });
        }
        for (buffer, access) in call.bindings.iter().zip(accesses) {
            let buffer = *buffer;
            if !self.has_buffer(buffer) {
                return Err(CallProblem::NoBuffer { buffer });
            }
            let read_only = matches!(
                buffer,
                BufferRef::Matrix(..) | BufferRef::Vector(_) | BufferRef::Constant(_)
            );
            if read_only && *access == Access::Write {
                return Err(CallProblem::WritesWeight { buffer });
            }
        }
        Ok(())
    }

    fn check_call_sizes(&self, call: &Call) -> Checked {
        let params = call.params.iter().filter_map(|word| match word {
            ParamWord::Const(_) => None,
            ParamWord::Size(size) => Some(size),
        });
        let workgroups = call.workgroups.iter().flatten();
        let workgroups = workgroups.flat_map(|expression| expression.leaves());
        let conditions = call.conditions.iter();
        let bounds = conditions.flat_map(|condition| condition.bounds.iter().flatten());
        let mut sizes = params.chain(&call.grid).chain(workgroups).chain(bounds);
        match sizes.find(|size: &&Size| !self.is_valid_size(size)) {
            None => Ok(()),
            Some(size) => Err(CallProblem::Size {
                dims: size.dims.clone(),
            }),
        }
    }
}

//! A compiled graph, as data: kernel calls over planned memory, sized by symbolic dimensions.

mod call;
mod memory;
mod sizes;
mod stage;
mod traffic;

pub use call::{Call, KernelChoice};
pub use memory::{BufferRef, Matrix, Port, RowRange, Vector};
pub use sizes::{SizeCheck, SizeSum};
pub use stage::{Stage, StageOutput, Unfused};
pub use traffic::Traffic;

use std::{collections::BTreeSet, ops::Deref};

use serde::{Deserialize, Serialize};
use wisp_graph::{extension::CustomKernel, lowering::Size};
use wisp_shaders::{Kernel, OpKind};
use wisp_types::Capabilities;

use crate::Switches;

/// A compiled graph, which a session binds to memory and runs.
///
/// Only [`compile`](crate::compile) makes one, or the [check](ProgramParts::check) of parts that come from a
/// file; nothing changes one afterwards. Its [parts](ProgramParts) can be read as if they were its fields:
/// `program.calls`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Program(ProgramParts);

/// What a [`Program`] consists of. Anyone can make parts, or read them from a file; they become a program,
/// which can run, only if they pass a [check](Self::check).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramParts {
    /// The graph's name.
    pub name: String,
    /// The capabilities that kernels were chosen for.
    pub target: Capabilities,
    /// The choices of kernels and encodings that the program was compiled with.
    pub switches: Switches,
    /// The names of the symbolic dimensions. [`Size`]s refer to them by their index.
    pub dims: Vec<String>,
    /// The dimensions that are sums of earlier ones, ascending by their index: they are calculated, not
    /// given.
    pub sums: Vec<(u32, SizeSum)>,
    /// What each run checks of its dimensions.
    pub size_checks: Vec<SizeCheck>,
    /// Inputs and buffers.
    pub inputs: Vec<Port>,
    /// Which of `inputs` are buffers.
    pub buffers: Vec<u32>,
    /// Outputs.
    pub outputs: Vec<Port>,
    /// Values that are shown after each run, named by their labels.
    pub prints: Vec<Port>,
    /// Weights that kernels read in their encoding, repacked.
    pub matrices: Vec<Matrix>,
    /// Weights that kernels read as plain `f32`.
    pub vectors: Vec<Vector>,
    /// Numbers stored in the program, as 4-byte words.
    pub constants: Vec<Vec<u32>>,
    /// For each slot of the arena of intermediate results, the numbers of 4-byte elements that it must hold
    /// at one time or another.
    pub slots: Vec<Vec<Size>>,
    /// The kernel calls, in the order in which they run.
    pub calls: Vec<Call>,
    /// The calls of each step of the graph, with the step's results.
    pub stages: Vec<Stage>,
    /// The kernels of custom ops.
    pub custom_kernels: Vec<CustomKernel>,
}

impl Deref for Program {
    type Target = ProgramParts;

    fn deref(&self) -> &ProgramParts {
        &self.0
    }
}

impl From<Program> for ProgramParts {
    fn from(program: Program) -> ProgramParts {
        program.0
    }
}

impl Program {
    /// Returns why the step that ends with a call is not fused with the steps before it, if others are.
    pub fn unfused(&self, call: usize) -> Option<&Unfused> {
        let mut stages = self.stages.iter();
        let stage = stages.find(|stage| stage.calls as usize > call)?;
        stage
            .unfused
            .as_ref()
            .filter(|_| stage.calls as usize == call + 1)
    }

    /// Returns true if some product multiplies integers, as [`Precision::Int8`](crate::Precision::Int8) asks for.
    pub fn has_int8_products(&self) -> bool {
        let mut choices = self.calls.iter().flat_map(|call| &call.kernels);
        choices.any(|choice| {
            matches!(
                OpKind::of(&choice.name),
                OpKind::Matmul { int8: true, .. } | OpKind::ExpertMatmul { int8: true }
            )
        })
    }

    /// Returns a program of parts that the compiler made or that passed the check.
    pub(crate) fn compiled(parts: ProgramParts) -> Program {
        Program(parts)
    }

    /// Returns the kernels that the program may run, each once, ordered by name.
    pub fn kernels(&self) -> impl Iterator<Item = &'static Kernel> + use<> {
        self.kernels_of(self.calls.iter()).into_iter()
    }

    /// Returns those that runs with dimensions up to these may need.
    pub fn kernels_within(
        &self,
        max_dims: &[u64],
    ) -> impl Iterator<Item = &'static Kernel> + use<> {
        let calls = self.calls.iter();
        let calls = calls.filter(|call| call.may_be_made(max_dims));
        self.kernels_of(calls).into_iter()
    }

    fn kernels_of<'a>(&self, calls: impl Iterator<Item = &'a Call>) -> Vec<&'static Kernel> {
        let choices = calls.flat_map(|call| &call.kernels);
        let names: BTreeSet<&String> = choices.map(|choice| &choice.name).collect();
        let kernels = names.into_iter().filter_map(|name| self.kernel(name));
        kernels.collect()
    }

    /// Returns the bytes of weights that a call reads if it reads all of its matrix.
    pub fn matrix_bytes(&self, call: &Call) -> u64 {
        let plane_bytes = |buffer: &BufferRef| match buffer {
            BufferRef::Matrix(matrix, plane) => {
                let matrix = &self.matrices[*matrix as usize];
                matrix.encoding.plane_row_bytes(matrix.cols)[usize::from(*plane)] * matrix.rows()
            }
            _ => 0,
        };
        call.bindings.iter().map(plane_bytes).sum()
    }

    /// Returns the number of weights in a call's matrix; 0 if it has none.
    pub fn matrix_weights(&self, call: &Call) -> u64 {
        let matrix = call.bindings.iter().find_map(|buffer| match buffer {
            BufferRef::Matrix(matrix, 0) => Some(&self.matrices[*matrix as usize]),
            _ => None,
        });
        matrix.map_or(0, |matrix| matrix.rows() * matrix.cols)
    }
}

impl ProgramParts {
    /// Returns the sizes of all dimensions, from those that are given by name.
    ///
    /// # Errors
    ///
    /// The name of a dimension that is not given, or of a sum that does not fit 64 bits.
    pub fn sizes(&self, given: impl Fn(&str) -> Option<u64>) -> Result<Vec<u64>, &str> {
        let mut sizes = Vec::with_capacity(self.dims.len());
        for (i, name) in (0u32..).zip(&self.dims) {
            let sum = self.sums.iter().find(|(dim, _)| *dim == i);
            let size = match sum {
                Some((_, sum)) => sum.eval(&sizes),
                None => given(name),
            };
            sizes.push(size.ok_or(name.as_str())?);
        }
        Ok(sizes)
    }

    /// Returns a kernel by its name: one of this build, or that of a custom op which comes with the program.
    pub fn kernel(&self, name: &str) -> Option<&'static Kernel> {
        wisp_shaders::kernel(name).or_else(|| {
            let mut custom = self.custom_kernels.iter();
            custom.find(|custom| custom.name == name)?.get().ok()
        })
    }
}

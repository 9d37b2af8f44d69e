//! From a graph to a program: fusion, choice of kernels, memory plan.
//!
//! Compiling needs neither weights nor a device, only the [`Capabilities`] of a target.

mod check;
mod footprint;
mod fuse;
mod lower;
mod memory;
mod program;
mod select;
mod switches;
mod target;
#[cfg(all(feature = "targets", not(target_arch = "wasm32")))]
mod translate;

pub use check::ProgramError;
pub use footprint::Footprint;
pub(crate) use footprint::{PARAMS_STRIDE, planes};
pub use program::{Call, Matrix, Piece, Place, Port, Program, Size, Vector, Word};
pub use switches::{SplitKReductionPrecision, Switches};
pub use target::{ShaderLanguage, Target, TargetError};
#[cfg(all(feature = "targets", not(target_arch = "wasm32")))]
pub use translate::translate;

use crate::{device::Capabilities, graph::Graph};

/// What can go wrong when a graph is compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// Occurs when no kernel of an op runs on the target.
    #[error("no kernel for {op} runs on this target ({target:?})")]
    NoKernel {
        /// The op.
        op: String,
        /// The target.
        target: Box<Capabilities>,
    },
    /// Occurs when a shape that must be known is symbolic.
    #[error(
        "{op}: {value} has shape {shape}, of which all but the outermost dimension must be known"
    )]
    Symbolic {
        /// The op.
        op: &'static str,
        /// The value.
        value: String,
        /// Its shape.
        shape: String,
    },
    /// Occurs when a weight's row alone exceeds what can be bound at once.
    #[error("a row of {tensor} takes {bytes} bytes, but the target binds at most {limit}")]
    RowTooLarge {
        /// The tensor.
        tensor: String,
        /// Bytes of one row.
        bytes: u64,
        /// The target's limit.
        limit: u64,
    },
    /// Occurs when a dimension does not fit a kernel's parameters.
    #[error("{op}: {what} is {value}, more than a kernel can take")]
    TooLarge {
        /// The op.
        op: &'static str,
        /// What is too large.
        what: &'static str,
        /// Its size.
        value: u64,
    },
    /// Occurs when an op would overwrite a value that is still needed.
    #[error("{op} works in place, but {value} is used again after it")]
    InPlace {
        /// The op.
        op: &'static str,
        /// The value.
        value: String,
    },
    /// Occurs when an operand is of a kind that the op cannot take.
    #[error("{op}: {value} must be {wanted}")]
    Operand {
        /// The op.
        op: &'static str,
        /// The value.
        value: String,
        /// What it must be.
        wanted: &'static str,
    },
}

/// Compiles a graph for a target.
///
/// # Errors
///
/// If the graph asks for what no kernel of the target can do.
pub fn compile(graph: &Graph, target: &Capabilities) -> Result<Program, CompileError> {
    compile_with(graph, target, Switches::default())
}

/// [`compile`], with other kernels or encodings than the best.
///
/// # Errors
///
/// As [`compile`].
pub fn compile_with(
    graph: &Graph,
    target: &Capabilities,
    switches: Switches,
) -> Result<Program, CompileError> {
    lower::lower(graph, &fuse::fuse(graph), target, switches)
}

#[cfg(test)]
mod tests;

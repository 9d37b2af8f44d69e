//! From a graph to a program: fusion, choice of kernels, memory plan.
//!
//! Compiling needs neither weights nor a device, only the [`Capabilities`] of a target. Ops that belong
//! together become one kernel call (a sum and its norm, several products of one value); each call gets
//! the kernels of its op that the target can run, from which a run chooses by its sizes; and results
//! that are not needed at the same time share memory. What comes out is a [`Program`]: data, which a
//! session binds to a device, or saves.
//!
//! ```
//! use wisp_engine::{
//!     compiler::{Target, compile},
//!     graph::{Binary, DType, Graph},
//!     shape,
//!     weights::Encoding,
//! };
//!
//! let mut graph = Graph::new("block");
//! let x = graph.input("x", DType::F32, shape!["rows", 64u64]);
//! let weight = graph.weight("weight", Encoding::Q8_0, shape![64u64, 64u64]);
//! let scale = graph.weight("scale", Encoding::F32, shape![64u64]);
//! let y = graph.linear(x, weight, None)?;
//! let y = graph.binary(Binary::Add, y, x)?;
//! let y = graph.rms_norm(y, scale, 1e-5)?;
//! graph.output("y", y);
//!
//! let target = Target::named("browser")?;
//! let program = compile(&graph, &target.capabilities)?;
//! let calls: Vec<&str> = program.calls.iter().map(|call| call.label.as_str()).collect();
//! assert_eq!(calls, ["linear weight", "add_rms_norm"]);
//! // Every kernel of it runs there, and can be written in that target's language.
//! target.check(&program)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
pub use footprint::planes;
pub use program::{
    Bound, BufferRef, Call, Matrix, ParamWord, Port, Program, RowRange, Size, Stage, StageOutput,
    Sum, Vector,
};
pub use switches::{SplitKReductionPrecision, Switches};
pub use target::{ShaderLanguage, Target, TargetError};
#[cfg(all(feature = "targets", not(target_arch = "wasm32")))]
pub use translate::translate;
pub use wisp_types::PARAMS_STRIDE;

use std::collections::HashMap;

use wisp_graph::{Graph, Value, ValueKind};
use wisp_types::Capabilities;

/// What can go wrong when a graph is compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// Occurs when no kernel of an op runs on the target.
    #[error("no kernel for {op} runs on this target: {}", .kernels.join(", "))]
    NoKernel {
        /// The op.
        op: String,
        /// Its kernels, each with what the target does not have.
        kernels: Vec<String>,
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
    /// Occurs when two inputs or buffers of a graph, two of its weights or two of its outputs have one name.
    #[error(
        "{graph} has two {what} called {name:?}, {first} and {second}: give one of them another name"
    )]
    Duplicate {
        /// The graph.
        graph: String,
        /// "inputs or buffers", "weights" or "outputs".
        what: &'static str,
        /// The name.
        name: String,
        /// The type and shape of the one.
        first: String,
        /// The type and shape of the other.
        second: String,
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
    /// Occurs when a custom op cannot run on the target.
    #[error("the custom op {op:?}: {problem}")]
    Custom {
        /// The op.
        op: String,
        /// Why.
        problem: String,
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
    check_names(graph)?;
    lower::lower(graph, &fuse::fuse(graph), target, switches)
}

/// What has a name is found by it.
fn check_names(graph: &Graph) -> Result<(), CompileError> {
    let named = |wanted: fn(&ValueKind) -> bool| {
        let values = graph.values().iter();
        let values = values.filter(move |value| wanted(&value.kind));
        values.map(|value| (value.name.as_str(), value))
    };
    let ports = named(|kind| matches!(kind, ValueKind::Input | ValueKind::Buffer));
    let weights = named(|kind| matches!(kind, ValueKind::Weight(_)));
    let outputs = graph.outputs().map(|(name, id)| (name, graph.value(id)));
    unique(graph, "inputs or buffers", ports)?;
    unique(graph, "weights", weights)?;
    unique(graph, "outputs", outputs)
}

fn unique<'a>(
    graph: &Graph,
    what: &'static str,
    named: impl Iterator<Item = (&'a str, &'a Value)>,
) -> Result<(), CompileError> {
    let mut known = HashMap::new();
    for (name, value) in named {
        if let Some(first) = known.insert(name, value) {
            return Err(CompileError::Duplicate {
                graph: graph.name.clone(),
                what,
                name: name.into(),
                first: format!("{}{}", first.dtype, first.shape),
                second: format!("{}{}", value.dtype, value.shape),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! Compiles graphs to programs: fusion, lowering, choice of kernels, memory plan. The crate may depend
//! on graphs and kernels, but on no device and no weights: the target of a compilation need not be
//! present. It exists so that programs are data that can be saved, checked and loaded elsewhere.
//!
//! Compiling needs neither weights nor a device, only the [`Capabilities`] of a target. Ops that
//! belong together are fused into one kernel call (a sum and its norm, several products of one value).
//! Each call gets all kernels of its op that the target can run, from which a run chooses by its
//! sizes. Results with disjoint lifetimes share memory. The result is a [`Program`]: data that a
//! session binds to a device or saves.
//!
//! ```
//! use wisp_compiler::{Target, compile};
//! use wisp_graph::{Binary, DType, Graph, shape};
//! use wisp_types::Encoding;
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
mod error;
mod fallback;
mod footprint;
mod fusion;
mod lower;
mod program;
mod select;
mod shader_language;
mod switches;
mod target;
#[cfg(all(feature = "targets", not(target_arch = "wasm32")))]
mod translate;
mod tuning;

pub use check::{CallProblem, ProgramError, ProgramProblem};
pub use error::CompileError;
pub use fallback::Fallback;
pub use footprint::{Footprint, MatrixLayout};
pub use program::{
    BufferRef, Call, KernelChoice, Matrix, Port, Program, ProgramParts, RowRange, SizeCheck,
    SizeSum, Stage, StageOutput, Traffic, Unfused, Vector,
};
pub use select::{fitting_kernels, kernels_of};
pub use shader_language::ShaderLanguage;
pub use switches::{Precision, SplitKReductionPrecision, Switches};
pub use target::{Target, TargetError};
#[cfg(all(feature = "targets", not(target_arch = "wasm32")))]
pub use translate::translate;
pub use tuning::{CallShape, TunedCall, Tuning};
pub use wisp_graph::lowering::{LoweringError, ParamWord, RunCondition, Size};
pub use wisp_types::PARAMS_STRIDE;

use wisp_graph::Graph;
use wisp_types::Capabilities;

/// Compiles a graph for a target.
///
/// # Errors
///
/// If two values of the graph have the same name, or no kernel of the target can run one of its ops.
pub fn compile(graph: &Graph, target: &Capabilities) -> Result<Program, CompileError> {
    compile_with(graph, target, Switches::default(), &Tuning::default())
}

/// Compiles like [`compile`], with other choices of kernels or encodings than the default, and with the
/// kernels that a tuning found to be faster.
///
/// # Errors
///
/// As [`compile`].
pub fn compile_with(
    graph: &Graph,
    target: &Capabilities,
    switches: Switches,
    tuning: &Tuning,
) -> Result<Program, CompileError> {
    error::check_names(graph)?;
    lower::lower(graph, &fusion::fuse(graph), target, switches, tuning)
}

#[cfg(test)]
mod tests;

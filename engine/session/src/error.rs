//! Why a session refuses a graph, a checkpoint or a run.

use wisp_compiler::{CompileError, TargetError};
use wisp_device::DeviceError;
use wisp_graph::{GraphError, SplitError};
use wisp_weights::{WeightError, encodings::EncodingError};

use crate::{artefact::ArtefactError, debug::DebugError};

/// What can go wrong in a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Occurs when a graph cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// Occurs when a target cannot run a graph.
    #[error(transparent)]
    Unable(#[from] TargetError),
    /// Occurs when a custom op does not fit the built-in one whose place it takes.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// Occurs when a custom op is to run on the host, which runs no WGSL.
    #[error(
        "the custom op {op:?} has no twin on the host: give it one by Extensions::with_twin, or use a GPU"
    )]
    NoTwin {
        /// The op.
        op: String,
    },
    /// Occurs when a custom op cannot run with the sizes at hand.
    #[error("the custom op {op:?}: {problem}")]
    Custom {
        /// The op.
        op: String,
        /// Why.
        problem: String,
    },
    /// Occurs when debugging finds something, or its settings are wrong.
    #[error(transparent)]
    Debug(Box<DebugError>),
    /// Occurs when the device fails in an op that is run by itself.
    #[error("{op} ({kernel}): {source}")]
    InOp {
        /// The op.
        op: String,
        /// Its kernel.
        kernel: &'static str,
        /// The device's error.
        source: Box<DeviceError>,
    },
    /// Occurs when the device fails.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Occurs when the checkpoint cannot be read.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// Occurs when a tensor's bytes do not fit its shape.
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    /// Occurs when the checkpoint lacks tensors, or has them in another shape or encoding.
    #[error("the checkpoint does not fit {graph}: {}", .problems.join("; "))]
    Mismatch {
        /// The graph.
        graph: String,
        /// Every problem found.
        problems: Vec<String>,
    },
    /// Occurs when a weight that is to become 8-bit floats has numbers that are not finite.
    #[error(
        "{tensor} has numbers that are not finite: it cannot become F8_E4M3; load it without enable_per_tensor_fp8_quantize"
    )]
    NotFinite {
        /// The tensor.
        tensor: String,
    },
    /// Occurs when a program names a kernel that this build does not have.
    #[error(
        "the program needs the kernel {0}, which this version of Wisp does not have: compile it again"
    )]
    UnknownKernel(String),
    /// Occurs when a program needs what the device does not have.
    #[error("{graph} was compiled for another device, {device} cannot run {}: compile it for this one", .missing.join(", "))]
    Target {
        /// The graph.
        graph: String,
        /// The device.
        device: String,
        /// What the program needs.
        missing: Vec<String>,
    },
    /// Occurs when what was compiled elsewhere is not this graph.
    #[error("the compiled model does not fit {graph}: {}: compile it again", .differences.join("; "))]
    OtherGraph {
        /// The graph.
        graph: String,
        /// What differs.
        differences: Vec<String>,
    },
    /// Occurs when a compiled model cannot be used.
    #[error(transparent)]
    Artefact(#[from] ArtefactError),
    /// Occurs when a model is made without the largest size of a dimension.
    #[error(
        "{model} needs the largest size of its dimension {name}: give it in InitOptions::max_dims"
    )]
    NoLargest {
        /// The model.
        model: String,
        /// The dimension.
        name: String,
    },
    /// Occurs when a dimension is not given, or larger than the model was made for.
    #[error("dimension {name} is {}, the model was made for at most {most}", .size.map_or("not given".into(), |size| size.to_string()))]
    Dimension {
        /// The dimension.
        name: String,
        /// Its size, if it is given.
        size: Option<u64>,
        /// The largest size allowed.
        most: u64,
    },
    /// Occurs when a size of an op, which follows from the dimensions of a run, is more than kernels count.
    #[error(
        "{op}: a size is {size}, but kernels count to {}: give it smaller inputs",
        u32::MAX
    )]
    TooLarge {
        /// The op.
        op: String,
        /// The size; the greatest number if it is greater.
        size: u64,
    },
    /// Occurs when a slice would be outside what it is of.
    #[error("{model}: {label} reads {needed} parts, but there are {available}")]
    Bound {
        /// The model.
        model: String,
        /// The op and its operand.
        label: String,
        /// Parts that it reads.
        needed: u64,
        /// Parts that there are.
        available: u64,
    },
    /// Occurs when an input, buffer or output is named that the model does not have.
    #[error("{model} has no {what} called {name:?}; it has {}", .has.join(", "))]
    UnknownPort {
        /// The model.
        model: String,
        /// "input", "buffer" or "output".
        what: &'static str,
        /// The name that was given.
        name: String,
        /// The names there are.
        has: Vec<String>,
    },
    /// Occurs when a model is given another number of inputs than it takes.
    #[error("{model} takes {} inputs ({}), but {given} are given", .expected.len(), .expected.join(", "))]
    Inputs {
        /// The model.
        model: String,
        /// How many are given.
        given: usize,
        /// The inputs that it takes.
        expected: Vec<String>,
    },
    /// Occurs when an input is absent, or has another type or shape.
    #[error("{model}: the input {name:?} is {given}, expected {expected}")]
    Input {
        /// The model.
        model: String,
        /// The input.
        name: String,
        /// Its type and shape.
        expected: String,
        /// What is given.
        given: String,
    },
    /// Occurs when a model runs whose weights were released.
    #[error("the weights of {model} were released: reload them before it runs")]
    Released {
        /// The model.
        model: String,
    },
    /// Occurs when a run is replayed that was not captured.
    #[error("{model} has not captured a run of inputs of these sizes ({sizes}): capture it first")]
    NotCaptured {
        /// The model.
        model: String,
        /// The sizes of the symbolic dimensions.
        sizes: String,
    },
    /// Occurs when a graph is placed on a device that the session does not have.
    #[error("the session has no device {index}, only {}", numbered(.has))]
    NoDevice {
        /// The device's number.
        index: usize,
        /// The devices that there are.
        has: Vec<String>,
    },
    /// Occurs when a graph cannot be split as asked for.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// Occurs when memory given for a buffer is too small for its largest shape.
    #[error("{name} needs {needed} bytes, but the buffer given for it has {bytes}")]
    SmallBuffer {
        /// The buffer.
        name: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes given.
        bytes: u64,
    },
}

/// Names with their numbers: `0 (llvmpipe), 1 (host CPU)`.
fn numbered(names: &[String]) -> String {
    let numbered = names.iter().enumerate();
    let numbered: Vec<String> = numbered.map(|(i, name)| format!("{i} ({name})")).collect();
    numbered.join(", ")
}

impl From<DebugError> for SessionError {
    fn from(error: DebugError) -> SessionError {
        SessionError::Debug(Box::new(error))
    }
}

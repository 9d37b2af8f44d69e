//! Why a session refuses a graph, a checkpoint or a run.

use wisp_compiler::{CompileError, TargetError};
use wisp_device::DeviceError;
use wisp_graph::{GraphError, SplitError};
use wisp_weights::{WeightError, encodings::EncodingError};

use crate::{artefact::ArtefactError, debug::DebugError, tuning_file::TuningError};

/// An error of a session or its models.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Occurs when a graph cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// Occurs when a target cannot run a graph.
    #[error(transparent)]
    Unable(#[from] TargetError),
    /// Occurs when a custom op does not fit the built-in op that it replaces.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// Occurs when a model is run with other sizes while another call executes it step by step.
    #[error("{model} is being executed step by step by another call: wait until that has ended")]
    Busy {
        /// The name of the model's graph.
        model: String,
    },
    /// Occurs when the progress callback cancels the loading of weights.
    #[error("loading was cancelled")]
    Cancelled,
    /// Occurs when a custom op without a Rust twin would run on the host, which runs no WGSL.
    #[error(
        "the custom op {op:?} has no twin on the host: give it one by Extensions::with_twin, or use a GPU"
    )]
    NoTwin {
        /// The custom op's name.
        op: String,
    },
    /// Occurs when a custom op cannot run with the sizes of a run.
    #[error("the custom op {op:?}: {problem}")]
    Custom {
        /// The label of the custom op's call.
        op: String,
        /// Why it cannot run, as a sentence about the op.
        problem: String,
    },
    /// Occurs when debugging finds something, or its settings are wrong.
    #[error(transparent)]
    Debug(Box<DebugError>),
    /// Occurs when the device fails in an op that debugging runs by itself.
    #[error("{op} ({kernel}): {source}")]
    InOp {
        /// The label of the op's kernel call: the op, and its weight if it has one.
        op: String,
        /// The name of the kernel, such as `matmul.q4_k.tile64x64`.
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
        /// The graph's name; for several graphs, their names separated by commas.
        graph: String,
        /// Every problem found.
        problems: Vec<String>,
    },
    /// Occurs when a weight to be quantized to 8-bit floats has values that are not finite.
    #[error(
        "{tensor} has numbers that are not finite: it cannot become F8_E4M3; load it without enable_per_tensor_fp8_quantize"
    )]
    NotFinite {
        /// The tensor's name in the checkpoint.
        tensor: String,
    },
    /// Occurs when a program names a kernel that this build does not have.
    #[error(
        "the program needs the kernel {0}, which this version of Wisp does not have: compile it again"
    )]
    UnknownKernel(String),
    /// Occurs when a program needs features that the device lacks.
    #[error("{graph} was compiled for another device, {device} cannot run {}: compile it for this one", .missing.join(", "))]
    Target {
        /// The name of the graph that the program was compiled from.
        graph: String,
        /// The name of the session's device.
        device: String,
        /// The features that the program needs.
        missing: Vec<String>,
    },
    /// Occurs when a session has precompiled graphs, and none of them is this graph.
    #[error("the compiled model does not fit {graph}: {}: compile it again", .differences.join("; "))]
    OtherGraph {
        /// The name of the graph that is to be loaded.
        graph: String,
        /// How it differs from the compiled graphs, one difference per entry.
        differences: Vec<String>,
    },
    /// Occurs when a file holds no tuning for this build.
    #[error(transparent)]
    Tuning(#[from] TuningError),
    /// Occurs when a compiled model cannot be used.
    #[error(transparent)]
    Artefact(#[from] ArtefactError),
    /// Occurs when a model is initialised without the largest size of a dimension.
    #[error(
        "{model} needs the largest size of its dimension {name}: give it in InitOptions::max_dims"
    )]
    NoLargest {
        /// The name of the model's graph.
        model: String,
        /// The symbolic dimension's name in the graph.
        name: String,
    },
    /// Occurs when a dimension has no size, or a larger one than the model was initialised for.
    #[error("dimension {name} is {}, the model was made for at most {most}", .size.map_or("not given".into(), |size| size.to_string()))]
    Dimension {
        /// The symbolic dimension's name in the graph.
        name: String,
        /// Its size, if it has one.
        size: Option<u64>,
        /// The largest size allowed.
        most: u64,
    },
    /// Occurs when a size of an op, computed from the dimensions of a run, exceeds 32 bits.
    #[error(
        "{op}: a size is {size}, but kernels count to {}: give it smaller inputs",
        u32::MAX
    )]
    TooLarge {
        /// The label of the op's kernel call: the op, and its weight if it has one.
        op: String,
        /// The size; `u64::MAX` if it exceeds 64 bits.
        size: u64,
    },
    /// Occurs when a slice would exceed its operand in a run.
    #[error("{model}: {label} reads {needed} parts, but there are {available}")]
    Bound {
        /// The name of the model's graph.
        model: String,
        /// The op and its operand.
        label: String,
        /// Elements of the sliced dimension that the op reads.
        needed: u64,
        /// Elements that the operand has.
        available: u64,
    },
    /// Occurs when the model has no input, buffer or output of a name.
    #[error("{model} has no {what} called {name:?}; it has {}", .has.join(", "))]
    UnknownPort {
        /// The name of the model's graph.
        model: String,
        /// "input", "buffer" or "output".
        what: &'static str,
        /// The name that was asked for.
        name: String,
        /// The names that the model has.
        has: Vec<String>,
    },
    /// Occurs when an input is given twice.
    #[error("{model}: the input {name:?} is given twice")]
    InputTwice {
        /// The name of the model's graph.
        model: String,
        /// The name of the input.
        name: String,
    },
    /// Occurs when the number of inputs is not the model's.
    #[error("{model} takes {} inputs ({}), but {given} are given", .expected.len(), .expected.join(", "))]
    Inputs {
        /// The name of the model's graph.
        model: String,
        /// The number of tensors passed.
        given: usize,
        /// The names of the model's inputs.
        expected: Vec<String>,
    },
    /// Occurs when an input is missing, or has another type or shape.
    #[error("{model}: the input {name:?} is {given}, expected {expected}")]
    Input {
        /// The name of the model's graph.
        model: String,
        /// The input's name in the graph.
        name: String,
        /// Its type and shape.
        expected: String,
        /// The type and shape of the tensor passed, or "not given".
        given: String,
    },
    /// Occurs when a model runs after its weights were released.
    #[error("the weights of {model} were released: reload them before it runs")]
    Released {
        /// The name of the model's graph.
        model: String,
    },
    /// Occurs when a model runs while another model overwrites weights that both share, or after that failed.
    #[error(
        "the weights of {model} are partly overwritten, because a model that shares them is being reloaded or failed to: reload {model} too"
    )]
    Overwritten {
        /// The name of the model's graph.
        model: String,
    },
    /// Occurs when no run of these sizes was captured for a replay.
    #[error("{model} has not captured a run of inputs of these sizes ({sizes}): capture it first")]
    NotCaptured {
        /// The name of the model's graph.
        model: String,
        /// The sizes of the symbolic dimensions.
        sizes: String,
    },
    /// Occurs when a graph is placed on a device that the session does not have.
    #[error("the session has no device {index}, only {}", numbered(.has))]
    NoDevice {
        /// The device's number.
        index: usize,
        /// The session's devices.
        has: Vec<String>,
    },
    /// Occurs when a graph cannot be split into the given stages.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// Occurs when a shared buffer is too small for the largest shape of its port.
    #[error("{name} needs {needed} bytes, but the buffer given for it has {bytes}")]
    SmallBuffer {
        /// The name of the port that the buffer was given for.
        name: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes that the buffer has.
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

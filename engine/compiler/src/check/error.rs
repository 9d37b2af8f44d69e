//! What a program that comes from a file can have wrong.

use crate::program::BufferRef;

/// Occurs when the parts of a program contradict each other or this build's kernels: the file is damaged,
/// or was made by another version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program {program:?}: {problem}")]
#[non_exhaustive]
pub struct ProgramError {
    /// The program's name.
    pub program: String,
    /// What is wrong with it.
    pub problem: Box<ProgramProblem>,
}

/// What is wrong with the parts of a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramProblem {
    /// Occurs when two dimensions, inputs or kernels have one name.
    #[error("it has two {what} called {name:?}")]
    DuplicateName {
        /// "dimensions", "inputs" or "kernels of custom ops".
        what: &'static str,
        /// The name that both have.
        name: String,
    },
    /// Occurs when a dimension is a sum, but not of dimensions before it.
    #[error("dimension {dim} is not a sum of earlier dimensions")]
    Sum {
        /// The index of the dimension that is a sum.
        dim: u32,
    },
    /// Occurs when what runs check refers to dimensions that do not exist.
    #[error("the size check {label:?} refers to unknown dimensions")]
    SizeCheck {
        /// The check's label.
        label: String,
    },
    /// Occurs when a size refers to dimensions that do not exist, or to too many.
    #[error("{what} has a size of unknown or too many dimensions: {dims:?}")]
    Size {
        /// What has the size.
        what: String,
        /// The dimensions that the size refers to.
        dims: Vec<u32>,
    },
    /// Occurs when an input is not in the buffer of its own number.
    #[error("the input {name:?} is in {actual:?} instead of {expected:?}")]
    InputBuffer {
        /// The input's name in the graph.
        name: String,
        /// Where it must be.
        expected: BufferRef,
        /// Where it is.
        actual: BufferRef,
    },
    /// Occurs when memory is referred to that the program does not have.
    #[error("{what} refers to {buffer:?}, which does not exist")]
    NoBuffer {
        /// What refers to it.
        what: String,
        /// The reference to memory that the program lacks.
        buffer: BufferRef,
    },
    /// Occurs when the number of a port's elements is not that of its shape.
    #[error("{name:?} has another number of elements than its shape {shape}")]
    Elements {
        /// The input, buffer, output or label.
        name: String,
        /// The shape that the program gives it, as text.
        shape: String,
    },
    /// Occurs when a result does not have a slot that was planned for its size.
    #[error("{name:?} is not in a slot of its size")]
    Slot {
        /// The result or the label.
        name: String,
    },
    /// Occurs when something is listed as a buffer that is no input.
    #[error("buffer {index} is not among the {inputs} inputs")]
    BufferIndex {
        /// The buffer's index in the program's list of inputs.
        index: u32,
        /// The number of inputs.
        inputs: usize,
    },
    /// Occurs when a matrix has no rows, or not whole blocks of its encoding, or is larger than any file.
    #[error(
        "a matrix has no rows, has rows of incomplete blocks, or the weights are larger than any file"
    )]
    Weights,
    /// Occurs when the stages do not cover the calls one after the other.
    #[error("its stages must cover its {calls} calls in order, but one ends at call {end}")]
    Stages {
        /// The number of calls.
        calls: usize,
        /// Where a stage ends.
        end: usize,
    },
    /// Occurs when the kernel of a custom op is invalid.
    #[error("{problem}")]
    CustomKernel {
        /// The custom op's name.
        op: String,
        /// Why, with the op's name.
        problem: String,
    },
    /// Occurs when a call does not fit its kernels.
    #[error("call {index} ({label}): {problem}")]
    Call {
        /// The call's index.
        index: usize,
        /// The call's label.
        label: String,
        /// What is wrong with it.
        problem: CallProblem,
    },
}

fn rows(most: u32) -> String {
    match most {
        u32::MAX => "any number of rows".into(),
        most => format!("at most {most} rows"),
    }
}

/// What is wrong with a kernel call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallProblem {
    /// Occurs when a call names a kernel that this build does not have.
    #[error("there is no kernel {name:?}")]
    UnknownKernel {
        /// The kernel name in the call.
        name: String,
    },
    /// Occurs when a kernel is to be used for another number of rows than it is meant for.
    #[error("{kernel} is meant for {}, not for {}", rows(*.expected), rows(*.actual))]
    MaxRows {
        /// The name of the kernel, such as `matmul.q4_k.tile64x64`.
        kernel: &'static str,
        /// The most rows that this build's kernel is written for; `u32::MAX` for any number.
        expected: u32,
        /// The limit in the call.
        actual: u32,
    },
    /// Occurs when a call has no kernel for any number of rows.
    #[error("it has no kernel for any number of rows")]
    NoKernel,
    /// Occurs when the kernels of a call belong to different ops.
    #[error("{second} does not implement the same op as {first}")]
    DifferentOps {
        /// The first kernel.
        first: &'static str,
        /// A kernel of another op.
        second: &'static str,
    },
    /// Occurs when a call has no parameters, or more than fit.
    #[error("it has {actual} words of parameters, expected 1 to {most}")]
    Params {
        /// The number of words.
        actual: usize,
        /// The largest number.
        most: u64,
    },
    /// Occurs when a call binds another number of buffers than its kernel takes.
    #[error("it binds {actual} buffers, but {kernel} takes {expected}")]
    Bindings {
        /// The name of the kernel, such as `matmul.q4_k.tile64x64`.
        kernel: &'static str,
        /// The number of buffers that it takes.
        expected: usize,
        /// The number of buffers that the call binds.
        actual: usize,
    },
    /// Occurs when a kernel would write weights or constants.
    #[error("it writes {buffer:?}, which is read-only")]
    WritesWeight {
        /// The weights or constant that the kernel would write.
        buffer: BufferRef,
    },
    /// Occurs when a call refers to memory that the program does not have.
    #[error("it binds {buffer:?}, which does not exist")]
    NoBuffer {
        /// The reference to memory that the program lacks.
        buffer: BufferRef,
    },
    /// Occurs when a size refers to dimensions that do not exist, or to too many.
    #[error("it has a size of unknown or too many dimensions: {dims:?}")]
    Size {
        /// The dimensions that the size refers to.
        dims: Vec<u32>,
    },
    /// Occurs when a call has its own number of workgroups but is no custom op's, or the other way round.
    #[error("calls of custom ops, and no others, have their own number of workgroups")]
    Workgroups,
}

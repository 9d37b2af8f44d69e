//! Why an op cannot become kernel calls.

/// Occurs when an op of a valid graph cannot be lowered to kernel calls for a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoweringError {
    /// Occurs when no kernel of an op runs on the target.
    #[error("no kernel for {op} runs on this target{}", listed(.kernels))]
    NoKernel {
        /// The op of the kernels, with its encoding if it has one.
        op: String,
        /// The op's kernels for this class of target, each with what the target or the call lacks for it.
        kernels: Vec<String>,
    },
    /// Occurs when a dimension must be known when the graph is compiled, but is symbolic.
    #[error("{op}: the last dimension of {value} must be fixed, but its shape is {shape}")]
    Symbolic {
        /// The op's name, such as `softmax`.
        op: &'static str,
        /// The value with the symbolic dimension.
        value: String,
        /// The value's shape.
        shape: String,
    },
    /// Occurs when a dimension does not fit the 32-bit parameters of a kernel.
    #[error("{op}: {what} is {value}, but kernels count only to {}", u32::MAX)]
    TooLarge {
        /// The op's name, such as `softmax`.
        op: &'static str,
        /// What is too large.
        what: &'static str,
        /// The size or count, which exceeds what kernels support.
        value: u64,
    },
    /// Occurs when a tensor has more dimensions than kernels take.
    #[error("{op}: {dims} dimensions remain after merging, but kernels take at most {most}")]
    Dimensions {
        /// The op's name, such as `softmax`.
        op: &'static str,
        /// The dimensions that are left after those with a common stride are merged.
        dims: usize,
        /// The most dimensions that kernels take.
        most: usize,
    },
    /// Occurs when an operand is of a kind that the op's kernels cannot read.
    #[error("{op}: {value} must be {wanted}")]
    Operand {
        /// The op's name, such as `softmax`.
        op: &'static str,
        /// The operand's name in the graph.
        value: String,
        /// What it must be.
        wanted: &'static str,
    },
    /// Occurs when one row of a weight exceeds what the target can bind at once.
    #[error(
        "a row of {tensor} takes {bytes} bytes, but the target binds at most {limit} bytes at once"
    )]
    RowTooLarge {
        /// The weight's tensor name in the checkpoint.
        tensor: String,
        /// Bytes of one row.
        bytes: u64,
        /// The target's limit.
        limit: u64,
    },
    /// Occurs when a custom op cannot run on the target.
    #[error("the custom op {op:?}: {problem}")]
    CustomOp {
        /// The custom op's name, as declared.
        op: String,
        /// Why it cannot run.
        problem: String,
    },
}

/// Formats kernels as the end of a sentence; empty if there are none.
fn listed(kernels: &[String]) -> String {
    match kernels {
        [] => String::new(),
        kernels => format!(": {}", kernels.join(", ")),
    }
}

//! The error of adding an op whose operands do not fit it.

use std::{borrow::Cow, fmt};

use wisp_types::{DType, Shape};

use crate::value::{TensorType, Value};

/// Occurs when an op is added to a graph whose operands do not fit it.
///
/// Displayed as `softmax: x must be f32 with at least 1 dimension, but ids is u32[n] (ids: u32[n])`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphError {
    /// The op, by the name of [`Op::name`](crate::Op::name) or of the method of [`Graph`](crate::Graph).
    pub op: Cow<'static, str>,
    /// What does not fit.
    pub problem: Box<OpProblem>,
    /// The operands in order, each with its name and type.
    pub operands: Vec<(String, TensorType)>,
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.op, self.problem)?;
        for (i, (name, tensor)) in self.operands.iter().enumerate() {
            write!(f, "{}{name}: {tensor}", if i == 0 { " (" } else { ", " })?;
        }
        f.write_str(if self.operands.is_empty() { "" } else { ")" })
    }
}

impl std::error::Error for GraphError {}

/// What an op refuses about its operands or its own settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpProblem {
    /// Occurs when an op is given another number of operands than it takes.
    #[error("expected {expected}, got {actual} {}", if *.actual == 1 { "operand" } else { "operands" })]
    OperandCount {
        /// The operands that the op takes.
        expected: Cow<'static, str>,
        /// How many are given.
        actual: usize,
    },
    /// Occurs when an operand has an element type, a shape or a kind that the op does not take.
    #[error("{role} must be {expected}, but {tensor} is {actual}")]
    Operand {
        /// The operand's role in the op, such as "the weight".
        role: Cow<'static, str>,
        /// The name of the value that is given for it.
        tensor: String,
        /// What the op takes.
        expected: Cow<'static, str>,
        /// What is given.
        actual: String,
    },
    /// Occurs when an op works along a dimension that its operand does not have.
    #[error("{shape} has no dimension {axis}")]
    NoAxis {
        /// The operand's shape.
        shape: Shape,
        /// The dimension, counted from 0.
        axis: u32,
    },
    /// Occurs when a size must be known while the graph is built, but is symbolic.
    #[error("{what} must be a fixed size, but is {dim}")]
    SymbolicSize {
        /// What has the size.
        what: &'static str,
        /// The symbolic dimension.
        dim: String,
    },
    /// Occurs when a tensor would have more dimensions than kernels handle.
    #[error("{shape} has more than {most} dimensions")]
    Rank {
        /// The shape with too many dimensions.
        shape: Shape,
        /// The largest rank.
        most: usize,
    },
    /// Occurs when two shapes cannot be broadcast to a common one.
    #[error("{a} and {b} cannot be broadcast: {} differs from {}", .dims.0, .dims.1)]
    Broadcast {
        /// The shape of the first operand.
        a: Shape,
        /// The shape of the second operand.
        b: Shape,
        /// The dimensions that differ, neither of which is 1.
        dims: (String, String),
    },
    /// Occurs when the operands' shapes, each valid by itself, do not fit each other.
    #[error("{0}")]
    Mismatch(String),
    /// Occurs when the op's own settings are invalid, or invalid for these operands.
    #[error("{0}")]
    Settings(String),
    /// Occurs when a method that adds several ops cannot add one of them.
    #[error("{op}: {problem}")]
    Inner {
        /// The op that the method adds.
        op: Cow<'static, str>,
        /// Why it cannot be added.
        problem: Box<OpProblem>,
    },
}

impl OpProblem {
    /// An operand that does not have the type, shape or kind that the op takes.
    pub(crate) fn operand(
        role: impl Into<Cow<'static, str>>,
        operand: &Value,
        expected: impl Into<Cow<'static, str>>,
        actual: impl Into<String>,
    ) -> OpProblem {
        OpProblem::Operand {
            role: role.into(),
            tensor: operand.name.clone(),
            expected: expected.into(),
            actual: actual.into(),
        }
    }

    /// Another number of operands than an op takes.
    pub(crate) fn operand_count(expected: &'static str, actual: usize) -> OpProblem {
        OpProblem::OperandCount {
            expected: expected.into(),
            actual,
        }
    }

    /// An operand of another element type than the op takes.
    pub(crate) fn dtype(role: &'static str, operand: &Value, expected: DType) -> OpProblem {
        let actual = operand.dtype.to_string();
        OpProblem::operand(role, operand, expected.to_string(), actual)
    }
}

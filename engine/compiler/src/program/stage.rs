//! Steps of the graph, for debugging.

use std::fmt;

use serde::{Deserialize, Serialize};
use wisp_graph::lowering::Size;
use wisp_types::DType;

/// The calls that do one step of the graph, and the step's results: what debugging looks at in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// The number of [calls](super::ProgramParts::calls) that are done after the step.
    pub calls: u32,
    /// The step's results.
    pub outputs: Vec<StageOutput>,
    /// Why the step runs more calls than others of its kind, if it does.
    pub unfused: Option<Unfused>,
}

/// An op that ends a pattern of ops which others run as one, but is not fused with them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unfused {
    /// The pattern's name.
    pub pattern: String,
    /// What does not fit the pattern.
    pub reason: String,
}

impl Unfused {
    pub(crate) fn new(pattern: &str, reason: &str) -> Unfused {
        Unfused {
            pattern: pattern.into(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for Unfused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unfused { pattern, reason } = self;
        write!(f, "not fused as {pattern}, because {reason}")
    }
}

/// A result of a step that is in the arena.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageOutput {
    /// The name of the value.
    pub name: String,
    /// The type of the elements.
    pub dtype: DType,
    /// The number of elements.
    pub elements: Size,
    /// The slot of the arena that holds the result.
    pub slot: u32,
    /// Whether the step wrote all of it, rather than changing an operand in place.
    pub is_new: bool,
}

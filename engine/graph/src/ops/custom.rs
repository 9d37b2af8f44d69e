//! Custom ops: nodes whose kernel is the user's.

use serde::{Deserialize, Serialize};

use super::{Inferred, Op, OpRules};
use crate::{error::OpProblem, value::Value};

/// A [custom op](crate::extension). [`Graph::custom`](crate::Graph::custom) adds it, because its shape rule
/// is in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Custom {
    /// The index of the op and its parameters in the graph.
    pub(crate) index: u32,
}

impl Custom {
    /// An unstable door for tests that forge graphs.
    #[doc(hidden)]
    pub fn forged(index: u32) -> Custom {
        Custom { index }
    }
}

impl From<Custom> for Op {
    fn from(op: Custom) -> Op {
        Op::Custom(op)
    }
}

impl OpRules for Custom {
    fn name(&self) -> &'static str {
        "custom"
    }

    fn infer(&self, _operands: &[&Value]) -> Inferred {
        Err(OpProblem::Settings(
            "a custom op must be added by Graph::custom".into(),
        ))
    }
}

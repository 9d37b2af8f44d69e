//! `print`: shows a value after each run.

use serde::{Deserialize, Serialize};

use super::{Inferred, Op, OpRules};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, Size},
    value::{Value, ValueId},
};

/// A copy of a value that is shown after each run. [`Graph::print`] adds it, because its label is in the
/// graph.
///
/// Operands: `x`. Result: as `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Print {
    /// The index of the label in the graph.
    pub(crate) label: u32,
}

impl From<Print> for Op {
    fn from(op: Print) -> Op {
        Op::Print(op)
    }
}

impl OpRules for Print {
    fn name(&self) -> &'static str {
        "print"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [x] = operands else {
            return Err(OpProblem::operand_count("x", operands.len()));
        };
        Ok(vec![x.tensor_type()])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let strides = op.strides(node.inputs[0]);
        op.copy_to_result(node.inputs[0], Size::fixed(0), strides, node.outputs[0])?;
        let label = op.graph().label(self.label as usize).unwrap_or_default();
        op.print(label, node.outputs[0]);
        Ok(())
    }
}

impl Graph {
    /// Prints a value in every run, under a label, in the style that the session's debugging options set,
    /// and returns the same value.
    ///
    /// The printed value is a copy that is kept until the run ends. So printing takes memory and time even
    /// where the output is turned off, and ops around it are not fused.
    ///
    /// # Errors
    ///
    /// If the graph prints another value under this label.
    pub fn print(&mut self, value: ValueId, label: &str) -> Result<ValueId, GraphError> {
        if self.labels.iter().any(|known| known == label) {
            let problem = format!("another value is printed as {label:?}: choose another label");
            return Err(self.error("print", OpProblem::Settings(problem), &[value]));
        }
        let op = Print {
            label: self.labels.len() as u32,
        };
        let printed = self.add(op, &[value])?;
        self.labels.push(label.into());
        Ok(printed)
    }
}

//! Methods that add several ops: attention on plain tensors, pooling, padding, and so on.

mod attention;
mod batch_norm;
mod conv1d;
mod pad;
mod pool;
mod rope;

pub use pool::PoolSpec;

use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    value::ValueId,
};

impl Graph {
    /// Adds several ops that are one to the caller. If one of them cannot be added, the error names the
    /// whole and its operands, and the graph is left as it was.
    pub(crate) fn composed<T>(
        &mut self,
        op: &'static str,
        operands: &[ValueId],
        build: impl FnOnce(&mut Graph) -> Result<T, GraphError>,
    ) -> Result<T, GraphError> {
        let (values, nodes) = (self.values.len(), self.nodes.len());
        let constants = self.constants.len();
        build(self).map_err(|error| {
            self.values.truncate(values);
            self.nodes.truncate(nodes);
            self.constants.truncate(constants);
            let problem = match error.op == op {
                true => *error.problem,
                false => OpProblem::Inner {
                    op: error.op,
                    problem: error.problem,
                },
            };
            self.error(op, problem, operands)
        })
    }

    /// Returns a value's number of dimensions, of which `axis` must be one.
    pub(crate) fn rank_with_axis(
        &self,
        op: &'static str,
        x: ValueId,
        axis: u32,
    ) -> Result<usize, GraphError> {
        let shape = &self.value(x).shape;
        match (axis as usize) < shape.0.len() {
            true => Ok(shape.0.len()),
            false => {
                let shape = shape.clone();
                Err(self.error(op, OpProblem::NoAxis { shape, axis }, &[x]))
            }
        }
    }

    /// Returns the error of operands that do not fit each other, for [`Self::composed`] to complete.
    pub(crate) fn mismatch(&self, op: &'static str, problem: String) -> GraphError {
        self.error(op, OpProblem::Mismatch(problem), &[])
    }
}

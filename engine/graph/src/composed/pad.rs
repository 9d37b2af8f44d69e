//! Padding with a constant.

use wisp_types::{Dim, Shape};

use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    value::ValueId,
};

/// The most slices of padding on one side: the padding's condition is stored in the graph.
const MAX_PADDING: u64 = u16::MAX as u64;

impl Graph {
    /// Returns `x` with slices of one number before and after it along a dimension.
    ///
    /// # Errors
    ///
    /// If `x` has no such dimension, its size is 0 or symbolic, or `x` is not `f32`.
    pub fn pad(
        &mut self,
        x: ValueId,
        axis: u32,
        [before, after]: [u64; 2],
        value: f32,
    ) -> Result<ValueId, GraphError> {
        self.composed("pad", &[x], |graph| {
            let inner = graph.rank_with_axis("pad", x, axis)? - 1 - axis as usize;
            if before.max(after) > MAX_PADDING {
                let problem = format!(
                    "a padding of {before} and {after} slices exceeds the limit of {MAX_PADDING}"
                );
                return Err(graph.error("pad", OpProblem::Settings(problem), &[]));
            }
            let border = |graph: &mut Graph, len: u64| {
                // A slice of `x` gives the other dimensions' sizes; the condition takes nothing of it.
                let slice = graph.slice(x, axis, 0, 1, 1)?;
                let dims = std::iter::once(Dim::Fixed(len)).chain(vec![Dim::Fixed(1); inner]);
                let never = graph.constant_u32(&vec![0; len as usize], Shape(dims.collect()))?;
                let value = graph.scalar(value);
                graph.select(never, slice, value)
            };
            let mut parts = Vec::with_capacity(3);
            if before > 0 {
                parts.push(border(graph, before)?);
            }
            parts.push(x);
            if after > 0 {
                parts.push(border(graph, after)?);
            }
            match parts.len() {
                1 => Ok(x),
                _ => graph.concat(&parts, axis),
            }
        })
    }
}

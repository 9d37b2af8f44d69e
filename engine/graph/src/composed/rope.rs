//! Rotary position embedding on plain tensors.

use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    ops::Binary,
    value::ValueId,
};

impl Graph {
    /// Applies rotary position embedding (Su et al. 2021): rotates the pairs `(i, i + dim / 2)` of `x [.., n,
    /// dim]` by angles with the given cosines and sines, `[n, dim / 2]` or what broadcasts to it. For the
    /// heads of a decoder see [`Graph::rope_in_place`].
    ///
    /// # Errors
    ///
    /// If the last dimension is odd or symbolic, or the shapes do not fit.
    pub fn rope(&mut self, x: ValueId, cos: ValueId, sin: ValueId) -> Result<ValueId, GraphError> {
        self.composed("rope", &[x, cos, sin], |graph| {
            let value = graph.value(x);
            let shape = value.shape.clone();
            let Some(dim) = shape.cols().filter(|dim| dim % 2 == 0) else {
                let expected = "a tensor whose last dimension is fixed and even";
                let problem = OpProblem::operand("x", value, expected, shape.to_string());
                return Err(graph.error("rope", problem, &[]));
            };
            let (axis, half) = (shape.0.len() as u32 - 1, dim / 2);
            let a = graph.slice(x, axis, 0, half, 1)?;
            let b = graph.slice(x, axis, half, half, 1)?;
            let rotated = |graph: &mut Graph, function, [x, y]: [ValueId; 2]| {
                let x = graph.binary(Binary::Mul, x, cos)?;
                let y = graph.binary(Binary::Mul, y, sin)?;
                graph.binary(function, x, y)
            };
            let first = rotated(graph, Binary::Sub, [a, b])?;
            let second = rotated(graph, Binary::Add, [b, a])?;
            let out = graph.concat(&[first, second], axis)?;
            match graph.value(out).shape == shape {
                true => Ok(out),
                false => {
                    let problem = format!("the angles must broadcast to the shape of x, {shape}");
                    Err(graph.mismatch("rope", problem))
                }
            }
        })
    }
}

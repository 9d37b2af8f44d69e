//! Attention on plain tensors.

use crate::{
    error::GraphError,
    graph::Graph,
    ops::{Binary, Map},
    value::ValueId,
};

impl Graph {
    /// Returns `softmax(q k^T * scale + mask) v` (Vaswani et al. 2017), for `q [.., heads, n, dim]`, `k [..,
    /// heads, m, dim]`, `v [.., heads, m, dim]` and a mask of any shape that broadcasts to `[.., heads, n,
    /// m]`. For attention over a KV cache see [`Graph::paged_attention`].
    ///
    /// # Errors
    ///
    /// If the shapes do not fit.
    pub fn attention(
        &mut self,
        [q, k, v]: [ValueId; 3],
        mask: Option<ValueId>,
        scale: f32,
    ) -> Result<ValueId, GraphError> {
        let operands: Vec<ValueId> = [q, k, v].into_iter().chain(mask).collect();
        self.composed("attention", &operands, |graph| {
            let scores = graph.matmul_transposed(q, k, [false, true])?;
            let shape = graph.value(scores).shape.clone();
            let mut scores = graph.map(scores, Map::Scale(scale))?;
            if let Some(mask) = mask {
                scores = graph.binary(Binary::Add, scores, mask)?;
                if graph.value(scores).shape != shape {
                    let problem = format!("the mask must broadcast to the scores' shape {shape}");
                    return Err(graph.mismatch("attention", problem));
                }
            }
            let weights = graph.softmax(scores, shape.0.len() as u32 - 1)?;
            graph.matmul(weights, v)
        })
    }
}

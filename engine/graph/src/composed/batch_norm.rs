//! Batch norm with trained statistics.

use wisp_types::{Dim, Shape};

use crate::{
    error::GraphError,
    graph::Graph,
    ops::{Binary, Unary},
    value::ValueId,
};

impl Graph {
    /// Applies batch norm with trained statistics (Ioffe and Szegedy 2015), `(x - mean) / sqrt(variance +
    /// eps) * weight + bias`: `x [n, channels, ..]`, the other four `[channels]`.
    ///
    /// # Errors
    ///
    /// If the shapes do not fit.
    pub fn batch_norm(
        &mut self,
        x: ValueId,
        [weight, bias, mean, variance]: [ValueId; 4],
        eps: f32,
    ) -> Result<ValueId, GraphError> {
        let operands = [x, weight, bias, mean, variance];
        self.composed("batch_norm", &operands, |graph| {
            let shape = &graph.value(x).shape;
            let Some(channels) = shape.0.get(1).cloned() else {
                let problem = format!("x must be [n, channels, ..], but is {shape}");
                return Err(graph.mismatch("batch_norm", problem));
            };
            let inner = shape.0.len() - 2;
            let per_channel = Shape(vec![channels.clone()]);
            for id in &operands[1..] {
                let value = graph.value(*id);
                if value.shape != per_channel {
                    let problem = format!(
                        "{} must have an element for each of x's {channels} channels, but is {}",
                        value.name, value.shape
                    );
                    return Err(graph.mismatch("batch_norm", problem));
                }
            }
            let eps = graph.scalar(eps);
            let spread = graph.binary(Binary::Add, variance, eps)?;
            let factor = graph.unary(Unary::Rsqrt, spread)?;
            let factor = graph.binary(Binary::Mul, factor, weight)?;
            let shift = graph.binary(Binary::Mul, mean, factor)?;
            let shift = graph.binary(Binary::Sub, bias, shift)?;
            let dims = std::iter::once(channels).chain(vec![Dim::Fixed(1); inner]);
            let dims = Shape(dims.collect());
            let [factor, shift] = [factor, shift].map(|x| graph.reshape(x, dims.clone()));
            let scaled = graph.binary(Binary::Mul, x, factor?)?;
            graph.binary(Binary::Add, scaled, shift?)
        })
    }
}

//! One-dimensional convolution, as a two-dimensional one of images with one row.

use wisp_types::Dim;

use crate::{error::GraphError, graph::Graph, ops::ConvSpec, value::ValueId};

impl Graph {
    /// Convolves signals `[n, channels, length]` with filters `[out, channels / groups, taps]`. Of the
    /// spec's `[rows, columns]` only the columns count.
    ///
    /// # Errors
    ///
    /// If the shapes do not fit.
    pub fn conv1d(
        &mut self,
        signal: ValueId,
        weight: ValueId,
        bias: Option<ValueId>,
        spec: ConvSpec,
    ) -> Result<ValueId, GraphError> {
        let operands: Vec<ValueId> = [signal, weight].into_iter().chain(bias).collect();
        self.composed("conv1d", &operands, |graph| {
            let [image, filters] = [signal, weight].map(|x| {
                let value = graph.value(x);
                let mut shape = value.shape.clone();
                if shape.0.len() != 3 {
                    let problem = format!("{} must have 3 dimensions, but is {shape}", value.name);
                    return Err(graph.mismatch("conv1d", problem));
                }
                shape.0.insert(2, Dim::Fixed(1));
                graph.reshape(x, shape)
            });
            let spec = ConvSpec {
                stride: [1, spec.stride[1]],
                padding: [0, spec.padding[1]],
                dilation: [1, spec.dilation[1]],
                groups: spec.groups,
            };
            let out = graph.conv2d(image?, filters?, bias, spec)?;
            let mut shape = graph.value(out).shape.clone();
            shape.0.remove(2);
            graph.reshape(out, shape)
        })
    }
}

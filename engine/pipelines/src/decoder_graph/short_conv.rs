//! The gated short convolution (LFM2).

use wisp_graph::{ValueId, ops::CausalConv};
use wisp_types::{DType, shape};

use super::{builder::GraphBuilder, error::DecoderError, inputs::BlockInputs};

impl GraphBuilder<'_, '_> {
    /// Adds a gated short convolution of filters `[hidden, width]` with its projections, without the
    /// norms around it.
    pub fn short_conv(
        &mut self,
        layer: usize,
        width: u32,
        x: ValueId,
        inputs: &BlockInputs,
    ) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let hidden = spec.hidden_size;
        let name = self.layer_name(&names.conv_in, layer);
        let gates_and_value = self.whole_linear(x, name, [3 * hidden, hidden])?;
        let name = self.layer_name(&names.conv, layer);
        let filters = self.weight(format!("{name}.weight"), &[hidden, width.into()])?;
        let mut operands = vec![gates_and_value, filters, inputs.index];
        operands.push(inputs.spans()?);
        operands.extend(self.states(layer));
        let bias = format!("{name}.bias");
        if self.has(&bias) {
            operands.push(self.weight(bias, &[hidden])?);
        }
        let conv = CausalConv {
            gated: true,
            silu: false,
        };
        let mixed = self.graph.add(conv, &operands)?;
        let name = self.layer_name(&names.conv_out, layer);
        self.whole_linear(mixed, name, [hidden, hidden])
    }

    /// Adds the buffers of a layer's recurrent state, `[state_rows, ..]`.
    pub fn states(&mut self, layer: usize) -> Vec<ValueId> {
        let tensors = self.spec.layers[layer].mixer.state(self.spec.hidden_size);
        let buffers = tensors.into_iter().map(|tensor| {
            let [rows, cols] = tensor.shape;
            let shape = shape!["state_rows", rows, cols];
            self.graph.buffer(&tensor.buffer(layer), DType::F32, shape)
        });
        buffers.collect()
    }
}

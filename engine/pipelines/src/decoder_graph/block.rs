//! One transformer block.

use wisp_graph::{Binary, ValueId};

use super::{builder::GraphBuilder, error::DecoderError, inputs::BlockInputs};
use crate::spec::{Mixer, NormPlacement};

impl GraphBuilder<'_, '_> {
    /// Adds a block: attention and feed-forward, each between its norms and added to the residual
    /// stream `x`.
    pub fn block(
        &mut self,
        layer: usize,
        x: ValueId,
        inputs: &BlockInputs,
    ) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let placement = spec.norm_placement;
        let pre = matches!(placement, NormPlacement::Pre | NormPlacement::Sandwich);
        let output = matches!(placement, NormPlacement::Output | NormPlacement::Sandwich);
        let residual = placement == NormPlacement::PostResidual;

        let normed_before = pre && spec.layers[layer].attention_norm;
        let normed = self.norm_if(normed_before, layer, x, &names.attention_norm)?;
        let attended = self.mixer(layer, normed, inputs)?;
        let attended = self.norm_if(output, layer, attended, &names.attention_output_norm)?;
        let between = match spec.parallel_residual {
            true => x,
            false => self.residual_sum(x, attended)?,
        };
        let between = self.norm_if(residual, layer, between, &names.attention_residual_norm)?;

        let normed = match spec.parallel_residual && spec.shared_norm {
            true => normed,
            false => self.norm_if(pre, layer, between, &names.mlp_norm)?,
        };
        let mut out = match spec.layers[layer].moe {
            true => self.mixture(layer, normed)?,
            false => self.feed_forward(layer, normed)?,
        };
        out = self.norm_if(output, layer, out, &names.mlp_output_norm)?;
        if spec.parallel_residual {
            out = self.graph.add(Binary::Add, &[attended, out])?;
        }
        let sum = self.residual_sum(between, out)?;
        self.norm_if(residual, layer, sum, &names.mlp_residual_norm)
    }

    /// Adds a layer's mixer, without the norms around it.
    fn mixer(
        &mut self,
        layer: usize,
        x: ValueId,
        inputs: &BlockInputs,
    ) -> Result<ValueId, DecoderError> {
        match self.spec.layers[layer].mixer {
            Mixer::Attention => self.attention(layer, x, inputs),
            Mixer::DeltaNet(net) => self.delta_net(layer, net, x, inputs),
            Mixer::Mamba2(mamba) => self.mamba2(layer, mamba, x, inputs),
            Mixer::ShortConv { width } => self.short_conv(layer, width, x, inputs),
        }
    }

    /// Adds the output `y` of a sublayer, times the model's factor, to the residual stream `x`.
    fn residual_sum(&mut self, x: ValueId, y: ValueId) -> Result<ValueId, DecoderError> {
        Ok(match self.spec.residual_multiplier {
            1.0 => self.graph.binary(Binary::Add, x, y)?,
            scale => self.graph.scaled_add(x, y, scale)?,
        })
    }

    /// Adds a layer's norm if `present`, else returns `x`.
    fn norm_if(
        &mut self,
        present: bool,
        layer: usize,
        x: ValueId,
        template: &str,
    ) -> Result<ValueId, DecoderError> {
        let spec = self.spec;
        match present {
            true => self.norm(
                spec.norm,
                x,
                self.layer_name(template, layer),
                spec.hidden_size,
            ),
            false => Ok(x),
        }
    }
}

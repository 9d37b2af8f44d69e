//! One transformer block.

use wisp_graph::{Binary, Map, ValueId};

use super::{builder::GraphBuilder, error::DecoderError, inputs::BlockInputs};
use crate::spec::{FeedForward, Mixer, NormPlacement};

impl GraphBuilder<'_, '_> {
    /// Adds a block, with the embedding of its layer if there is one. `x` is the residual stream, or all its versions.
    pub fn block(
        &mut self,
        layer: usize,
        x: ValueId,
        inputs: &BlockInputs,
    ) -> Result<ValueId, DecoderError> {
        if let Some(alt_up) = self.spec.alt_up {
            return self.alt_up_block(alt_up, layer, x, inputs);
        }
        let mut x = self.sublayers(layer, x, inputs)?;
        if let Some(input) = self.layer_input(layer, x, inputs)? {
            x = self.graph.add(Binary::Add, &[x, input])?;
        }
        if self.spec.layer_scalars {
            let name = self.layer_name(&self.names.layer_scalar, layer);
            let scalar = self.weight(name, &[1])?;
            x = self.graph.add(Binary::Mul, &[x, scalar])?;
        }
        Ok(x)
    }

    /// Adds a mixer and a feed-forward network, of which one may be missing, each between its norms and added to the
    /// residual stream `x`.
    pub fn sublayers(
        &mut self,
        layer: usize,
        x: ValueId,
        inputs: &BlockInputs,
    ) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        if spec.parallel_residual {
            return self.parallel_block(layer, x, inputs);
        }
        let residual = spec.norm_placement == NormPlacement::PostResidual;
        let mut x = x;
        if spec.layers[layer].mixer != Mixer::None {
            let [normed, mixed] = self.normed_mixer(layer, x, inputs)?;
            x = self.residual_sum(x, mixed, 1.0)?;
            if let Some(rank) = spec.laurel_rank {
                x = self.laurel(layer, rank, normed, x)?;
            }
            x = self.norm_if(residual, layer, x, &names.attention_residual_norm)?;
        }
        if spec.layers[layer].feed_forward != FeedForward::None {
            let normed = self.norm_if(self.norms_before(), layer, x, &names.mlp_norm)?;
            let out = self.normed_feed_forward(layer, [x, normed])?;
            x = self.residual_sum(x, out, spec.layer_multipliers.down)?;
            x = self.norm_if(residual, layer, x, &names.mlp_residual_norm)?;
        }
        Ok(x)
    }

    /// Adds a block whose mixer and feed-forward network read the same input and are added together (GPT-J).
    fn parallel_block(
        &mut self,
        layer: usize,
        x: ValueId,
        inputs: &BlockInputs,
    ) -> Result<ValueId, DecoderError> {
        let [normed, mixed] = self.normed_mixer(layer, x, inputs)?;
        let normed = match self.spec.shared_norm {
            true => normed,
            false => self.norm_if(self.norms_before(), layer, x, &self.names.mlp_norm)?,
        };
        let out = self.normed_feed_forward(layer, [x, normed])?;
        let sum = self.graph.add(Binary::Add, &[mixed, out])?;
        self.residual_sum(x, sum, 1.0)
    }

    /// True if norms stand before a block's sublayers.
    fn norms_before(&self) -> bool {
        let placement = self.spec.norm_placement;
        matches!(placement, NormPlacement::Pre | NormPlacement::Sandwich)
    }

    /// True if norms stand on the outputs of a block's sublayers.
    fn norms_after(&self) -> bool {
        let placement = self.spec.norm_placement;
        matches!(placement, NormPlacement::Output | NormPlacement::Sandwich)
    }

    /// Adds a layer's mixer between its norms. Returns what it reads and its output.
    fn normed_mixer(
        &mut self,
        layer: usize,
        x: ValueId,
        inputs: &BlockInputs,
    ) -> Result<[ValueId; 2], DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let before = self.norms_before() && spec.layers[layer].attention_norm;
        let normed = self.norm_if(before, layer, x, &names.attention_norm)?;
        let mixed = self.mixer(layer, normed, inputs)?;
        let after = self.norms_after();
        let mixed = self.norm_if(after, layer, mixed, &names.attention_output_norm)?;
        Ok([normed, mixed])
    }

    /// Adds a layer's feed-forward network and the norm after it. It reads the norm of the residual stream `x`.
    fn normed_feed_forward(
        &mut self,
        layer: usize,
        [x, normed]: [ValueId; 2],
    ) -> Result<ValueId, DecoderError> {
        let out = match self.spec.layers[layer].feed_forward {
            FeedForward::Experts => self.mixture(layer, normed, normed)?,
            FeedForward::Dense | FeedForward::None => self.feed_forward(layer, normed)?,
            FeedForward::DenseAndExperts => self.dense_and_experts(layer, [x, normed])?,
        };
        self.norm_if(self.norms_after(), layer, out, &self.names.mlp_output_norm)
    }

    /// Adds a dense feed-forward network, which reads the norm of the residual stream `x`, and a mixture of experts
    /// between norms of its own.
    fn dense_and_experts(
        &mut self,
        layer: usize,
        [x, normed]: [ValueId; 2],
    ) -> Result<ValueId, DecoderError> {
        let names = self.names;
        let dense = self.feed_forward(layer, normed)?;
        let dense = self.norm_if(true, layer, dense, &names.dense_output_norm)?;
        let normed = self.norm_if(true, layer, x, &names.expert_norm)?;
        let routed = self.mixture(layer, normed, x)?;
        let routed = self.norm_if(true, layer, routed, &names.expert_output_norm)?;
        Ok(self.graph.add(Binary::Add, &[dense, routed])?)
    }

    /// Adds a layer's mixer, without the norms around it.
    fn mixer(
        &mut self,
        layer: usize,
        x: ValueId,
        inputs: &BlockInputs,
    ) -> Result<ValueId, DecoderError> {
        let factors = self.spec.layer_multipliers;
        match self.spec.layers[layer].mixer {
            Mixer::None => Ok(x),
            Mixer::Attention => self.attention(layer, x, inputs),
            Mixer::DeltaNet(net) => self.delta_net(layer, net, x, inputs),
            Mixer::Mamba2(mamba) => self.mamba2(layer, mamba, x, inputs),
            Mixer::ShortConv { width } => self.short_conv(layer, width, x, inputs),
            Mixer::AttentionAndMamba2(mamba) => {
                let input = self.scaled(x, factors.attention_in)?;
                let attended = self.attention(layer, input, inputs)?;
                let attended = self.scaled(attended, factors.attention_out)?;
                let input = self.scaled(x, factors.mamba_in)?;
                let scanned = self.mamba2(layer, mamba, input, inputs)?;
                self.sum(attended, scanned, factors.mamba_out)
            }
        }
    }

    /// Adds a product with a factor, unless that is 1.
    pub fn scaled(&mut self, x: ValueId, factor: f32) -> Result<ValueId, DecoderError> {
        match factor {
            1.0 => Ok(x),
            factor => self.map(x, Map::Scale(factor)),
        }
    }

    /// Adds the output `y` of a sublayer, times a factor and the model's own, to the residual stream `x`.
    fn residual_sum(
        &mut self,
        x: ValueId,
        y: ValueId,
        factor: f32,
    ) -> Result<ValueId, DecoderError> {
        self.sum(x, y, factor * self.spec.residual_multiplier)
    }

    /// Adds `x + factor * y`.
    fn sum(&mut self, x: ValueId, y: ValueId, factor: f32) -> Result<ValueId, DecoderError> {
        Ok(match factor {
            1.0 => self.graph.binary(Binary::Add, x, y)?,
            factor => self.graph.scaled_add(x, y, factor)?,
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

//! The spec of the common decoder, as a GGUF file sizes it.

use super::keys::GgufMetadata;
use crate::{
    architectures::error::ArchitectureError,
    spec::{
        DecoderSizes, DecoderSpec, ExpertGroups, ExpertScoring, HeadSizes, Mamba2Norm, Mamba2Spec,
        MoeSpec, RopeSettings, SharedExpert, TensorNames, check_layers, in_layer,
    },
};

impl GgufMetadata<'_> {
    /// Returns the spec of a Llama with this file's sizes, norm epsilon, experts and rotary
    /// embedding. Queries and keys are not yet interleaved:
    /// [`Architecture::interleaves_rope_in_gguf`](crate::architectures::Architecture) says so.
    ///
    /// # Errors
    ///
    /// If a key is missing or has the wrong type.
    pub fn decoder_spec(&self) -> Result<DecoderSpec, ArchitectureError> {
        let names = TensorNames::gguf();
        let hidden_size = self.u32("embedding_length")?;
        let heads = self.u32("attention.head_count")?;
        // The last layers may predict further tokens, and are not used.
        let further = self.u32_or("nextn_predict_layers", 0)?;
        let layers = self.u32("block_count")?.saturating_sub(further);
        check_layers(layers.into()).map_err(|problem| self.error(problem.to_string()))?;
        let max_positions = u64::from(self.u32("context_length")?);
        let head_dim = self.u32_or("attention.key_length", hidden_size / heads.max(1))?;
        let embedding = self.required_weight_rows(&names.embedding)?;
        let layer_kv_heads = self.layer_kv_heads();
        let mut spec = DecoderSpec::llama(DecoderSizes {
            vocab_size: embedding,
            hidden_size: hidden_size.into(),
            intermediate_size: self.widest_layer(layers as usize)?.into(),
            layers,
            heads,
            kv_heads: match &layer_kv_heads {
                Some(each) => each.iter().copied().max().unwrap_or(heads),
                None => self.u32_or("attention.head_count_kv", heads)?,
            },
            head_dim,
            max_positions,
        });
        let kv_heads = layer_kv_heads.unwrap_or_default();
        for (layer, kv_heads) in spec.layers.iter_mut().zip(kv_heads) {
            if kv_heads > 0 && kv_heads < spec.kv_heads {
                layer.head_sizes = Some(HeadSizes { kv_heads, head_dim });
            }
        }
        // Where a model adds 1 to the weights of its norms, the file's weights include it.
        let eps = self.f32_or("attention.layer_norm_epsilon", 1e-5)?;
        spec.norm.eps = self.f32_or("attention.layer_norm_rms_epsilon", eps)?;
        spec.moe = self.moe(spec.intermediate_size, spec.layers.len())?;
        let has_experts = spec.moe.is_some();
        spec.set_expert_layers(|i| has_experts && self.has_weight(&in_layer(&names.router, i)));
        spec.rotary_dim = self.u32_or("rope.dimension_count", head_dim)?;
        spec.ropes = vec![RopeSettings::new(
            self.f32_or("rope.freq_base", 10_000.0)?,
            self.scaling(max_positions)?,
        )];
        spec.tied = !self.has_weight(&names.output);
        Ok(spec)
    }

    /// Returns the width of the widest feed-forward network.
    fn widest_layer(&self, layers: usize) -> Result<u32, ArchitectureError> {
        let widths = self.layer_numbers("feed_forward_length", layers)?;
        Ok(widths.into_iter().max().unwrap_or(0))
    }

    /// Returns the groups of experts, each of which is as good as the `best` experts in it together.
    ///
    /// # Errors
    ///
    /// If a key has the wrong type.
    pub fn expert_groups(&self, best: u32) -> Result<Option<ExpertGroups>, ArchitectureError> {
        let groups = self.u32_or("expert_group_count", 1)?;
        let chosen = self.u32_or("expert_group_used_count", 1)?;
        Ok((groups > 1).then_some(ExpertGroups {
            groups,
            chosen,
            best,
        }))
    }

    /// Returns the Mamba 2 mixer of the layers that have one.
    ///
    /// # Errors
    ///
    /// If a key is missing or has the wrong type.
    pub fn mamba2(&self, layers: usize) -> Result<Mamba2Spec, ArchitectureError> {
        let heads = self.u32("ssm.time_step_rank")?;
        let names = TensorNames::gguf();
        let mut layers = 0..layers;
        let has_norm = layers.any(|layer| self.has_weight(&in_layer(&names.mamba_norm, layer)));
        let [least, greatest] = Mamba2Spec::ANY_STEP;
        Ok(Mamba2Spec {
            groups: self.u32_or("ssm.group_count", 1)?,
            heads,
            state_dim: self.u32("ssm.state_size")?,
            head_dim: self.u32("ssm.inner_size")? / heads.max(1),
            width: self.u32("ssm.conv_kernel")?,
            norm: match has_norm {
                true => Mamba2Norm::AfterGate,
                false => Mamba2Norm::None,
            },
            step_limit: [
                self.f32_or("ssm.time_step_min", least)?,
                self.f32_or("ssm.time_step_max", greatest)?,
            ],
            multipliers: [1.0; 5],
        })
    }

    /// Returns the mixture of experts; `None` if the model has none.
    fn moe(
        &self,
        intermediate_size: u64,
        layer_count: usize,
    ) -> Result<Option<MoeSpec>, ArchitectureError> {
        let experts = self.u32_or("expert_count", 0)?;
        if experts == 0 {
            return Ok(None);
        }
        let width = self.optional_u32("expert_feed_forward_length")?;
        let names = TensorNames::gguf();
        let mut layers = 0..layer_count;
        let selection_bias = layers.any(|layer| self.has(&in_layer(&names.selection_bias, layer)));
        let width = width.map_or(intermediate_size, u64::from);
        Ok(Some(MoeSpec {
            scoring: match self.optional_u32("expert_gating_func")? {
                None | Some(0 | 1) => ExpertScoring::Softmax,
                Some(2) => ExpertScoring::Sigmoid,
                Some(other) => {
                    return Err(self.error(format!(
                        "`expert_gating_func` is {other}; 1 (softmax) and 2 (sigmoid) are supported"
                    )));
                }
            },
            selection_bias,
            normalize: self.bool_or("expert_weights_norm", true)?,
            scale: match self.optional_f32("expert_weights_scale")? {
                None | Some(0.0) => 1.0,
                Some(scale) => scale,
            },
            latent_size: self.optional_u32("moe_latent_size")?.map(u64::from),
            shared: self.shared_expert(layer_count),
            ..MoeSpec::new(experts, self.u32("expert_used_count")?, width)
        }))
    }

    /// Returns the shared expert of the first layer that has one.
    fn shared_expert(&self, layers: usize) -> Option<SharedExpert> {
        let names = TensorNames::gguf();
        (0..layers).find_map(|layer| {
            let intermediate_size = self.weight_rows(&in_layer(&names.shared_up, layer))?;
            let gated = self.has_weight(&in_layer(&names.shared_router, layer));
            Some(SharedExpert {
                intermediate_size,
                gated,
            })
        })
    }
}

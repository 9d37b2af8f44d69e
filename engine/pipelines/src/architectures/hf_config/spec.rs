//! The spec of the common decoder, as a `config.json` sizes it.

use serde_json::Value;
use wisp_graph::Activation;

use super::{fields::HfConfig, rope::LayerType};
use crate::{
    architectures::error::ArchitectureError,
    spec::{DecoderSizes, DecoderSpec, HeadSizes, MoeSpec, check_layers},
};

impl HfConfig {
    /// Returns the spec of a Llama with this configuration's sizes, activation, norm epsilon and
    /// rotary embedding.
    ///
    /// # Errors
    ///
    /// If a field is missing or has the wrong type.
    pub fn decoder_spec(&self) -> Result<DecoderSpec, ArchitectureError> {
        self.decoder_spec_of(self.u64("num_hidden_layers")?)
    }

    /// Returns the same as [`Self::decoder_spec`], but with this number of layers, whatever `num_hidden_layers` is.
    ///
    /// # Errors
    ///
    /// If a field is missing or has the wrong type.
    pub fn decoder_spec_of(&self, layers: u64) -> Result<DecoderSpec, ArchitectureError> {
        let hidden_size = self.u64("hidden_size")?;
        let heads = self.u32("num_attention_heads")?;
        check_layers(layers).map_err(|problem| self.error(problem.to_string()))?;
        let layers = layers as u32;
        let head_dim = hidden_size / u64::from(heads.max(1));
        let head_dim = self.u32_or("head_dim", u32::try_from(head_dim).unwrap_or(u32::MAX))?;
        let mut spec = DecoderSpec::llama(DecoderSizes {
            vocab_size: self.u64("vocab_size")?,
            hidden_size,
            // GPT-2's `n_inner` may be null.
            intermediate_size: self.u64_or("intermediate_size", hidden_size.saturating_mul(4))?,
            layers,
            heads,
            kv_heads: self.u32_or("num_key_value_heads", heads)?,
            head_dim,
            max_positions: self.max_positions()?,
        });
        spec.norm.eps = self.f32_or("rms_norm_eps", 1e-6)?;
        spec.activation = self.activation("hidden_act")?;
        spec.rotary_dim = (f64::from(head_dim) * self.partial_rotary_factor()?) as u32;
        spec.ropes = vec![self.rope(LayerType::FullAttention)?];
        spec.tied = self.bool_or("tie_word_embeddings", false)?;
        Ok(spec)
    }

    /// Returns the context length of the model.
    pub(super) fn max_positions(&self) -> Result<u64, ArchitectureError> {
        self.u64_or("max_position_embeddings", 2048)
    }

    /// Sets the window of the layers that `layer_types` calls `sliding_attention`, or, without
    /// `layer_types`, of those for which `otherwise` is true.
    ///
    /// # Errors
    ///
    /// If `layer_types` has another number of layers or another type.
    pub fn set_windows(
        &self,
        spec: &mut DecoderSpec,
        window: Option<u32>,
        otherwise: impl Fn(usize) -> bool,
    ) -> Result<(), ArchitectureError> {
        let layers = spec.layers.len();
        let types = self.layer_types(&["full_attention", "sliding_attention"], layers)?;
        let windowed: Vec<bool> = match types {
            None => (0..layers).map(otherwise).collect(),
            Some(types) => types
                .into_iter()
                .map(|layer_type| layer_type == 1)
                .collect(),
        };
        spec.set_windows(window, |layer| windowed[layer]);
        Ok(())
    }

    /// Returns for each layer which of some `kinds` `layer_types` calls it; `None` without
    /// `layer_types`.
    ///
    /// # Errors
    ///
    /// If `layer_types` has fewer layers or another type.
    pub fn layer_types(
        &self,
        kinds: &[&str],
        layers: usize,
    ) -> Result<Option<Vec<usize>>, ArchitectureError> {
        let types = match self.json.get("layer_types") {
            None | Some(Value::Null) => return Ok(None),
            Some(types) => types.as_array().map_or(&[][..], Vec::as_slice),
        };
        if types.len() < layers {
            return Err(self.error(format!(
                "`layer_types` has {} entries for {layers} layers",
                types.len()
            )));
        }
        let kind_of = |layer_type: &Value| {
            let text = layer_type.as_str();
            let found = kinds.iter().position(|kind| text == Some(kind));
            found.ok_or_else(|| {
                let kinds = kinds.join(" and ");
                self.error(format!(
                    "`layer_types` has {layer_type}; {kinds} are supported"
                ))
            })
        };
        types
            .iter()
            .map(kind_of)
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// Returns the sizes of a layer's heads: those in `per_layer_config`, where transformers 5 writes them, and `otherwise`
    /// for what is missing there.
    ///
    /// # Errors
    ///
    /// If one is not a whole number of 32 bits.
    pub fn layer_head_sizes(
        &self,
        layer: usize,
        otherwise: HeadSizes,
    ) -> Result<HeadSizes, ArchitectureError> {
        let layers = self.json.get("per_layer_config");
        let Some(own) = layers.and_then(|layers| layers.get(layer.to_string())) else {
            return Ok(otherwise);
        };
        let own = HfConfig { json: own.clone() };
        Ok(HeadSizes {
            kv_heads: own.u32_or("num_key_value_heads", otherwise.kv_heads)?,
            head_dim: own.u32_or("head_dim", otherwise.head_dim)?,
        })
    }

    /// Returns the window of a class that has `use_sliding_window`: `sliding_window` if that is
    /// true.
    ///
    /// # Errors
    ///
    /// If a field has the wrong type.
    pub fn optional_window(&self) -> Result<Option<u32>, ArchitectureError> {
        match self.bool_or("use_sliding_window", false)? {
            true => self.optional_u32("sliding_window"),
            false => Ok(None),
        }
    }

    /// Returns the mixture of experts of a softmax router, whose width is in the field `width`.
    ///
    /// # Errors
    ///
    /// If a field is missing or has the wrong type.
    pub fn moe(&self, width: &str, normalize: bool) -> Result<MoeSpec, ArchitectureError> {
        let experts = self.u32("num_local_experts")?;
        let experts_per_token = self.u32("num_experts_per_tok")?;
        Ok(MoeSpec {
            normalize,
            ..MoeSpec::new(experts, experts_per_token, self.u64(width)?)
        })
    }

    /// Returns the number of labels of a checkpoint with a head that scores texts; `None` for other
    /// checkpoints.
    ///
    /// # Errors
    ///
    /// If `num_labels` is not a whole number.
    pub fn score_labels(&self) -> Result<Option<u64>, ArchitectureError> {
        let classes = self.classes();
        let mut classes = classes.iter();
        if !classes.any(|class| class.ends_with("ForSequenceClassification")) {
            return Ok(None);
        }
        let named = self.json.get("id2label").and_then(Value::as_object);
        let labels = named.map_or(2, |labels| labels.len() as u64);
        Ok(Some(self.u64_or("num_labels", labels)?))
    }

    /// Returns the activation that a field names: SiLU without the field.
    ///
    /// # Errors
    ///
    /// If it is not supported.
    pub fn activation(&self, key: &str) -> Result<Activation, ArchitectureError> {
        match self.optional_text(key).unwrap_or("silu") {
            "silu" | "swish" => Ok(Activation::Silu),
            "gelu" | "gelu_python" => Ok(Activation::Gelu),
            "gelu_pytorch_tanh" | "gelu_new" | "gelu_fast" => Ok(Activation::GeluTanh),
            "relu" => Ok(Activation::Relu),
            other => Err(self.error(format!(
                "`{key}` is {other:?}; silu, gelu, gelu_pytorch_tanh and relu are supported"
            ))),
        }
    }
}

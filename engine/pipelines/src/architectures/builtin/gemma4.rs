//! Gemma 4's text model: Gemma 3n's embeddings of layers and shared keys and values, but one residual stream; wider heads,
//! and values that are keys, in layers without a window; and experts beside the feed-forward network.

use wisp_weights::gguf::{Array, Value};

use super::{gemma2, gemma3n};
use crate::{
    architectures::{
        architecture::Architecture,
        error::ArchitectureError,
        gguf_metadata::GgufMetadata,
        hf_config::{HfConfig, LayerType},
    },
    spec::{
        DecoderSpec, FeedForward, HeadSizes, LayerEmbeddings, NormPlacement, QkNorm, TensorNames,
        in_layer,
    },
};

/// Multimodal checkpoints store the text model under other prefixes.
pub(super) fn architecture() -> Architecture {
    let architecture = Architecture::new("gemma4")
        .config_classes(["Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"])
        .config_defaults(
            r#"{"vocab_size": 262144, "hidden_size": 2304, "intermediate_size": 9216,
            "num_hidden_layers": 30, "num_attention_heads": 8, "num_key_value_heads": 4,
            "head_dim": 256, "global_head_dim": 512, "hidden_act": "gelu_pytorch_tanh",
            "max_position_embeddings": 131072, "tie_word_embeddings": true, "sliding_window": 512,
            "rope_parameters": {"sliding_attention": {"rope_theta": 1e4}, "full_attention": {
                "rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}},
            "vocab_size_per_layer_input": 262144, "hidden_size_per_layer_input": 256}"#,
        )
        .config_key("hidden_act", "hidden_activation")
        .config_key("num_local_experts", "num_experts")
        .config_key("num_experts_per_tok", "top_k_experts")
        .tensor_names(TensorNames {
            prefixes: ["model.", "model.language_model.", "language_model.model."]
                .map(Into::into)
                .into(),
            layer_scalar: "layers.{}.layer_scalar".into(),
            dense_output_norm: "layers.{}.post_feedforward_layernorm_1".into(),
            expert_norm: "layers.{}.pre_feedforward_layernorm_2".into(),
            expert_output_norm: "layers.{}.post_feedforward_layernorm_2".into(),
            router: "layers.{}.router.proj".into(),
            router_norm: "layers.{}.router.scale".into(),
            expert_scales: "layers.{}.router.per_expert_scale".into(),
            expert_gate: "layers.{}.experts.{}.gate_proj".into(),
            expert_up: "layers.{}.experts.{}.up_proj".into(),
            expert_gate_up: "layers.{}.experts.gate_up_proj".into(),
            expert_down: "layers.{}.experts.{}.down_proj".into(),
            ..gemma2::tensor_names()
        })
        .spec_from_config(from_config);
    with_gguf(architecture)
}

/// Adds GGUF files. Their sizes of heads are those of layers without a window, and others have keys of their own.
fn with_gguf(architecture: Architecture) -> Architecture {
    let global_dim = |spec: &DecoderSpec| {
        let mut layers = spec.layers.iter();
        let global = layers.position(|layer| layer.window.is_none());
        Some(Value::U32(spec.head_sizes(global?).head_dim))
    };
    let local_dim = |spec: &DecoderSpec| Some(Value::U32(spec.head_dim));
    let architecture = gemma3n::with_gguf_keys(architecture)
        .gguf("gemma4")
        .spec_from_gguf(from_gguf)
        .gguf_key("attention.key_length", global_dim)
        .gguf_key("attention.value_length", global_dim)
        .gguf_key("attention.key_length_swa", local_dim)
        .gguf_key("attention.value_length_swa", local_dim)
        .gguf_key("rope.dimension_count", |spec| {
            Some(Value::U32(spec.rotary_dim_of(0)?))
        })
        .gguf_key("rope.dimension_count_swa", |spec| {
            Some(Value::U32(spec.rotary_dim))
        });
    architecture.gguf_key("attention.head_count_kv", |spec| {
        let layers = 0..spec.layers.len();
        let heads = layers.map(|layer| spec.head_sizes(layer).kv_heads as i32);
        Some(Value::Array(Array::I32(heads.collect())))
    })
}

fn from_gguf(metadata: &GgufMetadata<'_>) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = gemma3n::from_common_gguf(metadata)?;
    spec.logit_softcap = metadata.f32_or("final_logit_softcapping", 0.0)?;
    let names = TensorNames::gguf();
    let layers = spec.layers.len();
    spec.layer_scalars = metadata.has(&in_layer(&names.layer_scalar, 0));
    let kv_heads = metadata.layer_numbers("attention.head_count_kv", layers)?;
    let global_dim = spec.head_dim;
    spec.head_dim = metadata.u32("attention.key_length_swa")?;
    let mut all = spec.layers.iter().zip(&kv_heads);
    if let Some((_, kv_heads)) = all.find(|(layer, _)| layer.window.is_some()) {
        spec.kv_heads = *kv_heads;
    }
    let has = |name: &str, layer| metadata.has_weight(&in_layer(name, layer));
    // Layers that read the keys of earlier ones may have neither tensor.
    let lacks_values = |layer| has(&names.k, layer) && !has(&names.v, layer);
    let values_are_keys = (0..layers).any(lacks_values);
    for (layer, kv_heads) in spec.layers.iter_mut().zip(kv_heads) {
        let is_global = layer.window.is_none();
        let head_dim = if is_global { global_dim } else { spec.head_dim };
        let is_own = is_global || kv_heads != spec.kv_heads;
        layer.head_sizes = is_own.then_some(HeadSizes { kv_heads, head_dim });
        layer.values_are_keys = is_global && values_are_keys;
        if layer.feed_forward.has_experts() {
            layer.feed_forward = FeedForward::DenseAndExperts;
        }
    }
    if let Some(rope) = spec.ropes.first_mut() {
        rope.rotary_dim = Some(spec.rotary_dim);
    }
    spec.rotary_dim = metadata.u32_or("rope.dimension_count_swa", spec.head_dim)?;
    if let Some(moe) = &mut spec.moe {
        moe.router_norm = true;
        moe.expert_scales = metadata.has(&in_layer(&names.expert_scales, 0));
    }
    let shared = metadata.u32_or("attention.shared_kv_layers", 0)?;
    gemma3n::share_caches(&mut spec, shared.into());
    Ok(spec)
}

fn from_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = config.decoder_spec()?;
    if config.optional_text("use_bidirectional_attention") == Some("all") {
        return Err(config.error("`use_bidirectional_attention`: \"all\" is not supported"));
    }
    spec.embedding_multiplier = (spec.hidden_size as f32).sqrt();
    spec.norm_placement = NormPlacement::Sandwich;
    spec.qk_norm = QkNorm::PerHead;
    spec.v_norm = true;
    spec.layer_scalars = true;
    spec.set_attention_scale(1.0);
    spec.logit_softcap = config.f32_or("final_logit_softcapping", 0.0)?;
    set_attention(
        &mut spec,
        config,
        config.bool_or("attention_k_eq_v", false)?,
    )?;
    gemma3n::share_caches(&mut spec, config.u64_or("num_kv_shared_layers", 0)?);
    if config.bool_or("use_double_wide_mlp", false)? {
        let width = spec.intermediate_size.saturating_mul(2);
        let layers = spec.layers.iter_mut();
        for layer in layers.filter(|layer| layer.shared_kv.is_some()) {
            layer.intermediate_size = Some(width);
        }
    }
    let width = config.u64("hidden_size_per_layer_input")?;
    if width > 0 {
        let vocab_size = config.u64("vocab_size_per_layer_input")?;
        spec.layer_embeddings = Some(LayerEmbeddings { width, vocab_size });
    }
    if config.bool_or("enable_moe_block", false)? {
        let mut moe = config.moe("moe_intermediate_size", true)?;
        (moe.router_norm, moe.expert_scales) = (true, true);
        spec.moe = Some(moe);
        for layer in &mut spec.layers {
            layer.feed_forward = FeedForward::DenseAndExperts;
        }
    }
    Ok(spec)
}

/// Sets the windows, the heads and the rotations of layers. The last layer has no window, whatever the configuration says.
fn set_attention(
    spec: &mut DecoderSpec,
    config: &HfConfig,
    values_are_keys: bool,
) -> Result<(), ArchitectureError> {
    let window = config.optional_u32("sliding_window")?;
    config.set_windows(spec, window, |layer| !(layer + 1).is_multiple_of(6))?;
    if let Some(last) = spec.layers.last_mut() {
        last.window = None;
    }
    let head_dim = config.u32("global_head_dim")?;
    let kv_heads = config.optional_u32("num_global_key_value_heads")?;
    let kv_heads = kv_heads.filter(|_| values_are_keys);
    let usual = HeadSizes {
        kv_heads: kv_heads.unwrap_or(spec.kv_heads),
        head_dim,
    };
    let mut rotary_dim = head_dim;
    for (i, layer) in spec.layers.iter_mut().enumerate() {
        if layer.window.is_none() {
            let sizes = config.layer_head_sizes(i, usual)?;
            rotary_dim = sizes.head_dim;
            layer.head_sizes = Some(sizes);
            layer.values_are_keys = values_are_keys;
        }
    }
    spec.rotary_dim = spec.head_dim;
    if let Some(rope) = spec.ropes.first_mut() {
        rope.rotary_dim = Some(rotary_dim);
    }
    spec.set_local_rope(config.rope(LayerType::SlidingAttention)?);
    Ok(())
}

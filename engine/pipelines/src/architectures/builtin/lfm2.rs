//! LFM2: layers with a gated short convolution beside layers with attention, which have norms of queries
//! and keys.

use wisp_weights::gguf::{Array, Value};

use crate::{
    architectures::{
        architecture::Architecture, error::ArchitectureError, gguf_metadata::GgufMetadata,
        hf_config::HfConfig,
    },
    spec::{DecoderSpec, Mixer, QkNorm, TensorNames},
};

/// The feed-forward width of `config.json` is adjusted if `block_auto_adjust_ff_dim` is true. In GGUF,
/// layers with 0 KV heads have a convolution.
pub(super) fn architecture() -> Architecture {
    Architecture::new("lfm2")
        .config_classes(["Lfm2ForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 65536, "hidden_size": 2560, "intermediate_size": 12288,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
            "max_position_embeddings": 128000, "rms_norm_eps": 1e-5, "rope_theta": 1e6,
            "conv_L_cache": 3, "block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0,
            "block_auto_adjust_ff_dim": true, "tie_word_embeddings": true}"#,
        )
        .config_key("rms_norm_eps", "norm_eps")
        .config_key("intermediate_size", "block_ff_dim")
        .config_key("tie_word_embeddings", "tie_embedding")
        .tensor_names(tensor_names())
        .spec_from_config(|config| {
            let mut spec = with_mixers(config)?;
            spec.intermediate_size = adjusted_width(config, spec.intermediate_size)?;
            Ok(spec)
        })
        .gguf("lfm2")
        .gguf_tensor_names(gguf_tensor_names())
        .spec_from_gguf(with_gguf_mixers)
        .gguf_key("attention.head_count_kv", layer_kv_heads)
        .gguf_key("shortconv.l_cache", conv_width)
}

/// Returns what LFM2's checkpoints call their tensors.
pub(super) fn tensor_names() -> TensorNames {
    TensorNames {
        attention_norm: "layers.{}.operator_norm".into(),
        q_norm: "layers.{}.self_attn.q_layernorm".into(),
        k_norm: "layers.{}.self_attn.k_layernorm".into(),
        o: "layers.{}.self_attn.out_proj".into(),
        mlp_norm: "layers.{}.ffn_norm".into(),
        gate: "layers.{}.feed_forward.w1".into(),
        up: "layers.{}.feed_forward.w3".into(),
        down: "layers.{}.feed_forward.w2".into(),
        final_norm: "embedding_norm".into(),
        ..TensorNames::hugging_face()
    }
}

/// Returns what GGUF calls the tensors of LFM2, whose last norm has the name of an embedding's.
pub(super) fn gguf_tensor_names() -> TensorNames {
    TensorNames {
        final_norm: TensorNames::gguf().embedding_norm.clone(),
        ..TensorNames::gguf().clone()
    }
}

/// Makes the spec of a `config.json`. Without `layer_types`, the layers of `full_attn_idxs` have
/// attention, or all.
pub(super) fn with_mixers(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = config.decoder_spec()?;
    spec.qk_norm = QkNorm::PerHead;
    let layers = spec.layers.len();
    let is_conv: Vec<bool> = match config.layer_types(&["full_attention", "conv"], layers)? {
        Some(types) => types.into_iter().map(|kind| kind == 1).collect(),
        None => match config.optional_list("full_attn_idxs")? {
            Some(list) => (0..layers as u64).map(|i| !list.contains(&i)).collect(),
            None => vec![false; layers],
        },
    };
    set_mixers(&mut spec, config.u32("conv_L_cache")?, &is_conv);
    Ok(spec)
}

/// Makes the spec of a GGUF file.
pub(super) fn with_gguf_mixers(
    metadata: &GgufMetadata<'_>,
) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = metadata.decoder_spec()?;
    spec.qk_norm = QkNorm::PerHead;
    let kv_heads = metadata.layer_kv_heads().unwrap_or_default();
    let is_conv: Vec<bool> = kv_heads.into_iter().map(|heads| heads == 0).collect();
    if is_conv.contains(&true) {
        set_mixers(&mut spec, metadata.u32("shortconv.l_cache")?, &is_conv);
    }
    Ok(spec)
}

fn set_mixers(spec: &mut DecoderSpec, width: u32, is_conv: &[bool]) {
    let layers = spec.layers.iter_mut().zip(is_conv);
    for (layer, _) in layers.filter(|(_, is_conv)| **is_conv) {
        layer.mixer = Mixer::ShortConv { width };
        layer.rope = None;
    }
}

/// Returns GGUF's number of KV heads for each layer.
pub(super) fn layer_kv_heads(spec: &DecoderSpec) -> Option<Value> {
    let heads = spec.layers.iter().map(|layer| match layer.mixer.attends() {
        true => spec.kv_heads as i32,
        false => 0,
    });
    Some(Value::Array(Array::I32(heads.collect())))
}

/// Returns the width of the convolutions; `None` if no layer has one.
pub(super) fn conv_width(spec: &DecoderSpec) -> Option<Value> {
    spec.layers.iter().find_map(|layer| match layer.mixer {
        Mixer::ShortConv { width } => Some(Value::U32(width)),
        _ => None,
    })
}

/// Returns the width of the feed-forward network: two thirds of `block_ff_dim`, times a factor, rounded
/// up to a multiple, unless the configuration turns that off.
fn adjusted_width(config: &HfConfig, width: u64) -> Result<u64, ArchitectureError> {
    if !config.bool_or("block_auto_adjust_ff_dim", false)? {
        return Ok(width);
    }
    let two_thirds = width.saturating_mul(2) / 3;
    let Some(factor) = config.optional_f64("block_ffn_dim_multiplier")? else {
        return Ok(two_thirds);
    };
    let multiple = config.u64("block_multiple_of")?.max(1);
    let scaled = (factor * two_thirds as f64) as u64;
    Ok(scaled
        .checked_next_multiple_of(multiple)
        .unwrap_or(u64::MAX))
}

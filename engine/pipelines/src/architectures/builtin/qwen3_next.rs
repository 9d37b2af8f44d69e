//! Qwen3-Next: layers with a gated delta net beside layers with attention, whose output is gated. All have
//! experts and a gated shared expert.

use wisp_weights::gguf::{Array, Value};

use super::qwen2_moe;
use crate::{
    architectures::{
        architecture::Architecture, error::ArchitectureError, gguf_metadata::GgufMetadata,
        hf_config::HfConfig,
    },
    spec::{DecoderSpec, DeltaNetSpec, Mixer, QkNorm, TensorNames, in_layer},
};

/// Without `layer_types`, every `full_attention_interval`th layer has attention.
pub(super) fn architecture() -> Architecture {
    let architecture = Architecture::new("qwen3_next")
        .config_classes(["Qwen3NextForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632,
            "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2,
            "max_position_embeddings": 32768, "head_dim": 256, "partial_rotary_factor": 0.25,
            "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
            "linear_num_key_heads": 16, "linear_num_value_heads": 32, "full_attention_interval": 4,
            "decoder_sparse_step": 1, "moe_intermediate_size": 512, "num_experts_per_tok": 10,
            "shared_expert_intermediate_size": 512, "num_local_experts": 512, "norm_topk_prob": true}"#,
        )
        .config_key("num_local_experts", "num_experts")
        .tensor_names(qwen2_moe::tensor_names())
        .spec_from_config(|config| {
            let mut spec = with_delta_nets(config)?;
            qwen2_moe::set_experts(&mut spec, config)?;
            Ok(spec)
        });
    with_gguf(architecture, "qwen3next", false)
}

/// Adds the GGUF files of models with delta nets, which may be `tiled`.
pub(super) fn with_gguf(
    architecture: Architecture,
    name: &'static str,
    tiled: bool,
) -> Architecture {
    let architecture = architecture
        .gguf(name)
        .gguf_tensor_names(TensorNames {
            mlp_norm: TensorNames::gguf().attention_output_norm.clone(),
            ..TensorNames::gguf().clone()
        })
        .spec_from_gguf(move |metadata| from_gguf(metadata, tiled));
    let number = |value: fn(DeltaNetSpec) -> u32| {
        move |spec: &DecoderSpec| delta_net(spec).map(|net| Value::U32(value(net)))
    };
    let architecture = architecture
        .gguf_key("ssm.conv_kernel", number(|net| net.width))
        .gguf_key("ssm.state_size", number(|net| net.k_dim))
        .gguf_key("ssm.group_count", number(|net| net.k_heads))
        .gguf_key("ssm.time_step_rank", number(|net| net.v_heads))
        .gguf_key("ssm.inner_size", number(|net| net.v_heads * net.v_dim))
        .gguf_key("attention.recurrent_layers", |spec| {
            let layers = spec.layers.iter();
            let recurrent = layers.map(|layer| layer.mixer != Mixer::Attention);
            Some(Value::Array(Array::Bool(recurrent.collect())))
        })
        .gguf_key("full_attention_interval", |spec| {
            let mut layers = spec.layers.iter();
            let first = layers.position(|layer| layer.mixer == Mixer::Attention)?;
            Some(Value::U32(first as u32 + 1))
        });
    match tiled {
        true => architecture.gguf_tiled_values(),
        false => architecture,
    }
}

/// Returns the delta net of the layers that have one.
fn delta_net(spec: &DecoderSpec) -> Option<DeltaNetSpec> {
    spec.layers.iter().find_map(|layer| match layer.mixer {
        Mixer::DeltaNet(net) => Some(net),
        _ => None,
    })
}

/// Layers whose tensors include the norm of a delta net have one.
fn from_gguf(metadata: &GgufMetadata<'_>, tiled: bool) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = metadata.decoder_spec()?;
    spec.qk_norm = QkNorm::PerHead;
    spec.attention_gate = true;
    let v_heads = metadata.u32("ssm.time_step_rank")?;
    let net = DeltaNetSpec {
        k_heads: metadata.u32("ssm.group_count")?,
        v_heads,
        k_dim: metadata.u32("ssm.state_size")?,
        v_dim: metadata.u32("ssm.inner_size")? / v_heads.max(1),
        width: metadata.u32("ssm.conv_kernel")?,
        tiled,
    };
    let norm = &TensorNames::gguf().delta_norm;
    for (i, layer) in spec.layers.iter_mut().enumerate() {
        if metadata.has_weight(&in_layer(norm, i)) {
            layer.mixer = Mixer::DeltaNet(net);
            layer.rope = None;
        }
    }
    Ok(spec)
}

/// Makes a spec of layers with delta nets and layers with gated attention.
pub(super) fn with_delta_nets(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = config.decoder_spec()?;
    spec.norm.weight_offset = 1.0;
    spec.qk_norm = QkNorm::PerHead;
    spec.attention_gate = true;
    let layers = spec.layers.len();
    let kinds = &["full_attention", "linear_attention"];
    let types = match config.layer_types(kinds, layers)? {
        Some(types) => types,
        None => {
            let interval = config.u64("full_attention_interval")?.max(1);
            let is_linear = |layer: u64| !layer.is_multiple_of(interval);
            (1..=layers as u64)
                .map(|layer| usize::from(is_linear(layer)))
                .collect()
        }
    };
    let net = DeltaNetSpec {
        k_heads: config.u32("linear_num_key_heads")?,
        v_heads: config.u32("linear_num_value_heads")?,
        k_dim: config.u32("linear_key_head_dim")?,
        v_dim: config.u32("linear_value_head_dim")?,
        width: config.u32("linear_conv_kernel_dim")?,
        tiled: false,
    };
    let layers = spec.layers.iter_mut().zip(types);
    for (layer, _) in layers.filter(|(_, kind)| *kind == 1) {
        layer.mixer = Mixer::DeltaNet(net);
        layer.rope = None;
    }
    Ok(spec)
}

//! Granite 4: Granite with Mamba 2 in place of attention in most layers, without or with experts beside a
//! shared one.

use wisp_weights::gguf::Value;

use super::{granite, lfm2};
use crate::{
    architectures::{
        architecture::Architecture, error::ArchitectureError, gguf_metadata::GgufMetadata,
        hf_config::HfConfig,
    },
    spec::{DecoderSpec, GateUpOrder, Mixer, SharedExpert, TensorNames},
};

/// The feed-forward network of models without experts is what is the shared expert of others. Layers rotate
/// only if `position_embedding_type` says so.
pub(super) fn architecture() -> Architecture {
    let architecture = Architecture::new("granitemoehybrid")
        .config_classes(["GraniteMoeHybridForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048,
            "embedding_multiplier": 1.0, "residual_multiplier": 1.0, "attention_multiplier": 1.0,
            "logits_scaling": 1.0, "num_local_experts": 8, "num_experts_per_tok": 2,
            "shared_intermediate_size": 1024, "mamba_n_heads": 128, "mamba_n_groups": 1,
            "mamba_d_state": 256, "mamba_d_conv": 4, "mamba_expand": 2}"#,
        )
        .tensor_names(TensorNames {
            gate: "".into(),
            up: "".into(),
            gate_up: "layers.{}.shared_mlp.input_linear".into(),
            down: "layers.{}.shared_mlp.output_linear".into(),
            router: "layers.{}.block_sparse_moe.router.layer".into(),
            expert_gate: "".into(),
            expert_up: "".into(),
            expert_gate_up: "layers.{}.block_sparse_moe.input_linear".into(),
            gate_up_order: GateUpOrder::Rows,
            expert_down: "layers.{}.block_sparse_moe.output_linear".into(),
            shared_gate: "".into(),
            shared_up: "".into(),
            shared_gate_up: "layers.{}.shared_mlp.input_linear".into(),
            shared_down: "layers.{}.shared_mlp.output_linear".into(),
            ..TensorNames::hugging_face()
        })
        .spec_from_config(from_config)
        .gguf("granitehybrid")
        .gguf_interleaved_rope()
        .spec_from_gguf(from_gguf)
        .gguf_key("attention.head_count_kv", lfm2::layer_kv_heads)
        .gguf_key("rope.scaling.finetuned", |spec| {
            Some(Value::Bool(
                spec.layers.iter().any(|layer| layer.rope.is_some()),
            ))
        });
    granite::with_gguf_keys(architecture)
}

/// Layers with 0 KV heads have a Mamba 2 mixer. Layers rotate only if `rope.scaling.finetuned` says so.
fn from_gguf(metadata: &GgufMetadata<'_>) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = granite::with_gguf_multipliers(metadata)?;
    // Models without experts have the width of the shared expert.
    let width = metadata.optional_u32("expert_shared_feed_forward_length")?;
    if let (None, Some(width)) = (&spec.moe, width) {
        spec.intermediate_size = width.into();
    }
    let mamba = metadata.mamba2(spec.layers.len())?;
    let rotates = metadata.bool_or("rope.scaling.finetuned", false)?;
    let kv_heads = metadata.layer_kv_heads().unwrap_or_default();
    for (layer, kv_heads) in spec.layers.iter_mut().zip(kv_heads) {
        if kv_heads == 0 {
            layer.mixer = Mixer::Mamba2(mamba);
        }
        layer.rope = layer.rope.filter(|_| rotates && kv_heads > 0);
    }
    Ok(spec)
}

fn from_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = granite::with_multipliers(config)?;
    let shared = config.u64("shared_intermediate_size")?;
    if config.u32("num_local_experts")? == 0 {
        spec.intermediate_size = shared;
    } else {
        let mut moe = config.moe("intermediate_size", true)?;
        moe.shared = Some(SharedExpert {
            intermediate_size: shared,
            gated: false,
        });
        spec.moe = Some(moe);
        spec.set_expert_layers(|_| true);
    }
    let inner = config.u64("mamba_expand")?.saturating_mul(spec.hidden_size);
    let mamba = config.mamba2(inner)?;
    let kinds = &["attention", "full_attention", "mamba", "linear_attention"];
    let layers = spec.layers.len();
    let types = config.layer_types(kinds, layers)?;
    let types = types.unwrap_or_else(|| vec![2; layers]);
    let rotates = config.optional_text("position_embedding_type") == Some("rope");
    for (layer, kind) in spec.layers.iter_mut().zip(types) {
        if kind >= 2 {
            layer.mixer = Mixer::Mamba2(mamba);
        }
        layer.rope = layer.rope.filter(|_| rotates && kind < 2);
    }
    Ok(spec)
}

//! Granite 4: Granite with Mamba 2 in place of attention in most layers, without or with experts beside a
//! shared one.

use super::granite;
use crate::{
    architectures::{architecture::Architecture, error::ArchitectureError, hf_config::HfConfig},
    spec::{DecoderSpec, GateUpOrder, Mamba2Spec, Mixer, SharedExpert, TensorNames},
};

/// The feed-forward network of models without experts is what is the shared expert of others. Layers rotate
/// only if `position_embedding_type` says so.
pub(super) fn architecture() -> Architecture {
    Architecture::new("granitemoehybrid")
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
        spec.layers.iter_mut().for_each(|layer| layer.moe = true);
    }
    let heads = config.u32("mamba_n_heads")?;
    let inner = config.u64("mamba_expand")?.saturating_mul(spec.hidden_size);
    let head_dim = match config.optional_text("mamba_d_head") {
        Some(_) => None,
        None => config.optional_u32("mamba_d_head")?,
    };
    let head_dim = head_dim.map_or(inner / u64::from(heads.max(1)), u64::from);
    let mamba = Mamba2Spec {
        groups: config.u32("mamba_n_groups")?,
        heads,
        state_dim: config.u32("mamba_d_state")?,
        head_dim: u32::try_from(head_dim).unwrap_or(u32::MAX),
        width: config.u32("mamba_d_conv")?,
    };
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

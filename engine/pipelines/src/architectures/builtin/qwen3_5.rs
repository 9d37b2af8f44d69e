//! Qwen 3.5, its text: Qwen3-Next with other tensors, without or with experts.

use wisp_weights::gguf::{Array, Value};

use super::{qwen2_moe, qwen3_next};
use crate::{architectures::architecture::Architecture, spec::TensorNames};

/// Makes the architecture of models without experts.
pub(super) fn architecture() -> Architecture {
    let architecture = Architecture::new("qwen3_5")
        .config_classes(["Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"])
        .config_defaults(
            r#"{"vocab_size": 248320, "hidden_size": 4096, "intermediate_size": 12288,
            "num_hidden_layers": 32, "num_attention_heads": 16, "num_key_value_heads": 4,
            "max_position_embeddings": 32768, "head_dim": 256, "partial_rotary_factor": 0.25,
            "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
            "linear_num_key_heads": 16, "linear_num_value_heads": 32, "full_attention_interval": 4}"#,
        )
        .tensor_names(tensor_names())
        .spec_from_config(qwen3_next::with_delta_nets);
    with_sections(qwen3_next::with_gguf(architecture, "qwen35", true))
}

/// Adds the sections of the rotation, which other programs require. They matter for images only.
fn with_sections(architecture: Architecture) -> Architecture {
    architecture.gguf_key("rope.dimension_sections", |spec| {
        // Thirds of the rotated pairs: 11, 11 and 10 in the published models.
        let pairs = spec.rotary_dim as i32 / 2;
        let first = (pairs + 2) / 3;
        let second = (pairs - first + 1) / 2;
        let sections = vec![first, second, pairs - first - second, 0];
        Some(Value::Array(Array::I32(sections)))
    })
}

/// Makes the architecture of models with experts in all layers.
pub(super) fn with_experts() -> Architecture {
    let architecture = Architecture::new("qwen3_5_moe")
        .config_classes([
            "Qwen3_5MoeForCausalLM",
            "Qwen3_5MoeForConditionalGeneration",
        ])
        .config_defaults(
            r#"{"vocab_size": 248320, "hidden_size": 2048, "num_hidden_layers": 40,
            "num_attention_heads": 16, "num_key_value_heads": 2, "max_position_embeddings": 32768,
            "head_dim": 256, "partial_rotary_factor": 0.25, "linear_conv_kernel_dim": 4,
            "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
            "linear_num_value_heads": 32, "full_attention_interval": 4, "decoder_sparse_step": 1,
            "moe_intermediate_size": 512, "num_experts_per_tok": 8, "num_local_experts": 256,
            "shared_expert_intermediate_size": 512, "norm_topk_prob": true}"#,
        )
        .config_key("num_local_experts", "num_experts")
        .tensor_names(tensor_names())
        .spec_from_config(|config| {
            let mut spec = qwen3_next::with_delta_nets(config)?;
            qwen2_moe::set_experts(&mut spec, config)?;
            Ok(spec)
        });
    with_sections(qwen3_next::with_gguf(architecture, "qwen35moe", true))
}

/// Checkpoints with an image encoder call the text's part otherwise.
fn tensor_names() -> TensorNames {
    TensorNames {
        prefixes: vec!["model.".into(), "model.language_model.".into()],
        ..qwen2_moe::tensor_names()
    }
}

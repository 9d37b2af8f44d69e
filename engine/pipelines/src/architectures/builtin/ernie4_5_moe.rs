//! ERNIE 4.5 MoE: ERNIE 4.5 with a mixture of experts in some layers, chosen by a bias beside their
//! softmax scores, and shared experts.

use wisp_weights::gguf::Value;

use super::ernie4_5;
use crate::{
    architectures::{architecture::Architecture, error::ArchitectureError, hf_config::HfConfig},
    spec::{DecoderSpec, SharedExpert, TensorNames},
};

/// Every `moe_layer_interval`th layer from `moe_layer_start_index` to `moe_layer_end_index` has
/// experts. The shared experts are one wider expert.
pub(super) fn architecture() -> Architecture {
    Architecture::new("ernie4_5_moe")
        .config_classes(["Ernie4_5_MoeForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 103424, "hidden_size": 2560, "intermediate_size": 12288,
            "num_hidden_layers": 28, "num_attention_heads": 20, "num_key_value_heads": 4,
            "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
            "tie_word_embeddings": true, "moe_intermediate_size": 1536, "num_experts_per_tok": 6,
            "num_local_experts": 64, "moe_num_shared_experts": 2, "moe_layer_start_index": 1,
            "moe_layer_interval": 1}"#,
        )
        .config_key("num_experts_per_tok", "moe_k")
        .config_key("num_local_experts", "moe_num_experts")
        .tensor_names(TensorNames {
            selection_bias: "layers.{}.mlp.moe_statics.e_score_correction_bias".into(),
            ..TensorNames::hugging_face()
        })
        .spec_from_config(|config| {
            let mut spec = ernie4_5::with_rotated_neighbours(config.decoder_spec()?);
            set_experts(&mut spec, config)?;
            Ok(spec)
        })
        .gguf("ernie4_5-moe")
        .spec_from_gguf(|metadata| {
            let spec = metadata.decoder_spec()?;
            Ok(ernie4_5::with_rotated_neighbours(spec))
        })
        .gguf_key("leading_dense_block_count", |spec| {
            Some(Value::U32(spec.leading_dense_layers() as u32))
        })
        .gguf_key("interleave_moe_layer_step", |spec| {
            let with_experts = |from: usize| {
                let mut layers = spec.layers.iter().skip(from);
                layers.position(|layer| layer.feed_forward.has_experts())
            };
            let between = with_experts(with_experts(0)? + 1).unwrap_or(0);
            Some(Value::U32(between as u32 + 1))
        })
}

fn set_experts(spec: &mut DecoderSpec, config: &HfConfig) -> Result<(), ArchitectureError> {
    let interval = config.u64("moe_layer_interval")?;
    let first = config.u64("moe_layer_start_index")?;
    // -1 stands for the last layer.
    let last = config.optional_i64("moe_layer_end_index")?.unwrap_or(-1);
    let last = u64::try_from(last).unwrap_or(u64::MAX);
    spec.set_expert_layers(|i| {
        let i = i as u64;
        (i + 1).is_multiple_of(interval) && (first..=last).contains(&i)
    });
    let mut moe = config.moe("moe_intermediate_size", true)?;
    moe.selection_bias = true;
    let shared = config.u64("moe_num_shared_experts")?;
    if shared > 0 {
        moe.shared = Some(SharedExpert {
            intermediate_size: shared.saturating_mul(moe.intermediate_size),
            gated: false,
        });
    }
    spec.moe = Some(moe);
    Ok(())
}

//! Mixtral: Mistral with a mixture of experts in every layer. GGUF files of it say `llama`.

use super::{
    super::spec::{HUGGING_FACE, TensorNames},
    Architecture, mistral,
};

/// The chosen experts' weights always sum to 1.
pub const MIXTRAL: Architecture = Architecture {
    name: "mixtral",
    hugging_face: &["MixtralForCausalLM"],
    gguf: "",
    defaults: r#"{"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 1e6,
        "num_local_experts": 8, "num_experts_per_tok": 2}"#,
    names: TensorNames {
        router: "layers.{}.block_sparse_moe.gate",
        expert_gate: "layers.{}.block_sparse_moe.experts.{}.w1",
        expert_up: "layers.{}.block_sparse_moe.experts.{}.w3",
        expert_down: "layers.{}.block_sparse_moe.experts.{}.w2",
        ..HUGGING_FACE
    },
    from_hugging_face: |config| {
        let mut spec = (mistral::MISTRAL.from_hugging_face)(config)?;
        spec.moe = Some(config.moe("intermediate_size", true)?);
        for layer in &mut spec.layers {
            layer.moe = true;
        }
        Ok(spec)
    },
    ..mistral::MISTRAL
};

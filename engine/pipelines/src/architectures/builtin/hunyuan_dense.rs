//! Hunyuan's dense models: Llama with a norm on each head's query and key after rotation.

use crate::{
    architectures::architecture::Architecture,
    spec::{QkNorm, RopeScaling, TensorNames},
};

/// With `alpha`, `dynamic` scaling stands for a larger base, which does not depend on the context.
/// GGUF stores that base.
pub(super) fn architecture() -> Architecture {
    Architecture::new("hunyuan_v1_dense")
        .config_classes(["HunYuanDenseV1ForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 290943, "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048,
            "rms_norm_eps": 1e-5}"#,
        )
        .tensor_names(TensorNames {
            q_norm: "layers.{}.self_attn.query_layernorm".into(),
            k_norm: "layers.{}.self_attn.key_layernorm".into(),
            ..TensorNames::hugging_face()
        })
        .spec_from_config(|config| {
            let mut spec = config.decoder_spec()?;
            spec.qk_norm = QkNorm::PerRotatedHead;
            let alpha = config.rope_number("alpha")?.filter(|alpha| *alpha != 0.0);
            if let (Some(alpha), Some(rope)) = (alpha, spec.ropes.first_mut())
                && matches!(rope.scaling, RopeScaling::Dynamic { .. })
            {
                let dim = f64::from(spec.head_dim);
                rope.theta = (f64::from(rope.theta) * alpha.powf(dim / (dim - 2.0))) as f32;
                rope.scaling = RopeScaling::None;
            }
            Ok(spec)
        })
        .gguf("hunyuan-dense")
        .spec_from_gguf(|metadata| {
            let mut spec = metadata.decoder_spec()?;
            spec.qk_norm = QkNorm::PerRotatedHead;
            Ok(spec)
        })
}

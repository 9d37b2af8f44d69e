//! GPT-NeoX and Pythia: layer norms, attention and feed-forward side by side, a plain feed-forward,
//! a projection that is fused head by head, and heads that rotate in part.

use super::{
    super::{
        DecoderSpec,
        spec::{HUGGING_FACE, QkvLayout, TensorNames},
    },
    Architecture,
};
use wisp_graph::{Activation, NormKind};

fn make_plain(spec: &mut DecoderSpec, parallel: Option<bool>) {
    spec.norm.kind = NormKind::Layer;
    spec.gated = false;
    spec.parallel_residual = parallel.unwrap_or(true);
}

/// GGUF has the fused projection's parts one after the other.
pub const GPT_NEOX: Architecture = Architecture {
    name: "gpt_neox",
    hugging_face: &["GPTNeoXForCausalLM"],
    gguf: "gptneox",
    defaults: r#"{"vocab_size": 50432, "hidden_size": 6144, "intermediate_size": 24576,
        "num_hidden_layers": 44, "num_attention_heads": 64, "hidden_act": "gelu",
        "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "partial_rotary_factor": 0.25}"#,
    keys: &[
        ("rms_norm_eps", "layer_norm_eps"),
        ("partial_rotary_factor", "rotary_pct"),
        ("rope_theta", "rotary_emb_base"),
    ],
    names: TensorNames {
        roots: &["gpt_neox."],
        embedding: "embed_in",
        q: "",
        qkv: "layers.{}.attention.query_key_value",
        qkv_layout: QkvLayout::PerHead,
        o: "layers.{}.attention.dense",
        up: "layers.{}.mlp.dense_h_to_4h",
        down: "layers.{}.mlp.dense_4h_to_h",
        final_norm: "final_layer_norm",
        output: "embed_out",
        ..HUGGING_FACE
    },
    from_hugging_face: |config| {
        let mut spec = config.decoder()?;
        make_plain(&mut spec, config.boolean("use_parallel_residual")?);
        Ok(spec)
    },
    from_gguf: |config| {
        let mut spec = config.decoder()?;
        make_plain(&mut spec, config.boolean("use_parallel_residual")?);
        spec.activation = Activation::Gelu;
        Ok(spec)
    },
};

//! OLMo 2: Llama with norms after attention and feed-forward, and one over all queries and keys.

use super::{
    super::{
        DecoderSpec,
        spec::{HUGGING_FACE, NormPlacement, QkNorm},
    },
    Architecture,
};

fn place_norms(spec: &mut DecoderSpec) {
    spec.norm_placement = NormPlacement::Post;
    spec.qk_norm = QkNorm::Whole;
}

/// Nothing stands before attention and feed-forward.
pub const OLMO2: Architecture = Architecture {
    name: "olmo2",
    hugging_face: &["Olmo2ForCausalLM"],
    gguf: "olmo2",
    defaults: r#"{"vocab_size": 50304, "hidden_size": 4096, "intermediate_size": 11008,
        "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5}"#,
    keys: &[],
    names: HUGGING_FACE,
    from_hugging_face: |config| {
        let mut spec = config.decoder()?;
        place_norms(&mut spec);
        Ok(spec)
    },
    from_gguf: |config| {
        if config.u32("attention.sliding_window")?.is_some() {
            return Err(config.problem("it has a sliding window: OLMo 3 is not supported"));
        }
        let mut spec = config.decoder()?;
        place_norms(&mut spec);
        Ok(spec)
    },
};

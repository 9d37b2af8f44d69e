//! BERT: an encoder with learned positions and kinds of segments, biases, layer norms after the sums
//! and a plain feed-forward.

use super::{
    super::{
        DecoderSpec,
        spec::{EncoderSpec, HUGGING_FACE, NormPlacement, TensorNames},
    },
    Architecture, gpt2,
};
use wisp_graph::Activation;

fn make_encoder(spec: &mut DecoderSpec, token_types: u64) {
    gpt2::make_plain(spec);
    spec.norm_placement = NormPlacement::AfterSum;
    spec.encoder = Some(EncoderSpec {
        token_types,
        padding: None,
    });
}

/// Heads for a task, which some checkpoints have, are not used.
pub const BERT: Architecture = Architecture {
    name: "bert",
    hugging_face: &[
        "BertModel",
        "BertForMaskedLM",
        "BertForPreTraining",
        "BertForSequenceClassification",
        "BertForTokenClassification",
        "BertForQuestionAnswering",
    ],
    gguf: "bert",
    defaults: r#"{"vocab_size": 30522, "hidden_size": 768, "intermediate_size": 3072,
        "num_hidden_layers": 12, "num_attention_heads": 12, "hidden_act": "gelu",
        "max_position_embeddings": 512, "type_vocab_size": 2, "rms_norm_eps": 1e-12,
        "pad_token_id": 0}"#,
    keys: &[("rms_norm_eps", "layer_norm_eps")],
    names: TensorNames {
        roots: &["", "bert."],
        embedding: "embeddings.word_embeddings",
        positions: "embeddings.position_embeddings",
        token_types: "embeddings.token_type_embeddings",
        embedding_norm: "embeddings.LayerNorm",
        q: "encoder.layer.{}.attention.self.query",
        k: "encoder.layer.{}.attention.self.key",
        v: "encoder.layer.{}.attention.self.value",
        o: "encoder.layer.{}.attention.output.dense",
        attention_sum_norm: "encoder.layer.{}.attention.output.LayerNorm",
        up: "encoder.layer.{}.intermediate.dense",
        down: "encoder.layer.{}.output.dense",
        mlp_sum_norm: "encoder.layer.{}.output.LayerNorm",
        ..HUGGING_FACE
    },
    from_hugging_face: |config| {
        config.require("position_embedding_type", "absolute")?;
        config.require("is_decoder", false)?;
        let mut spec = config.decoder()?;
        make_encoder(&mut spec, config.u64("type_vocab_size")?);
        Ok(spec)
    },
    from_gguf: |config| {
        let mut spec = config.decoder()?;
        make_encoder(&mut spec, config.rows("token_types").unwrap_or(0));
        spec.activation = Activation::Gelu;
        // Converters of XLM-RoBERTa leave out the rows before its first position.
        spec.max_positions = config.rows("position_embd").unwrap_or(spec.max_positions);
        Ok(spec)
    },
};

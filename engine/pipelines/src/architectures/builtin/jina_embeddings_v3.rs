//! Jina Embeddings v3: XLM-RoBERTa with rotation instead of learned positions. Adapters for tasks are files of their own.

use wisp_graph::Activation;

use super::bert;
use crate::{
    architectures::architecture::Architecture,
    spec::{FeedForwardGate, TensorNames},
};

/// Of the heads for tasks, which some checkpoints have, only the one that scores texts is used.
pub(super) fn architecture() -> Architecture {
    Architecture::new("jina_embeddings_v3")
        .config_classes([
            "JinaEmbeddingsV3Model",
            "JinaEmbeddingsV3ForMaskedLM",
            "JinaEmbeddingsV3ForSequenceClassification",
            "JinaEmbeddingsV3ForTokenClassification",
            "JinaEmbeddingsV3ForQuestionAnswering",
        ])
        .config_defaults(
            r#"{"vocab_size": 250002, "hidden_size": 1024, "intermediate_size": 4096,
            "num_hidden_layers": 24, "num_attention_heads": 16, "hidden_act": "gelu",
            "max_position_embeddings": 8194, "type_vocab_size": 1, "rms_norm_eps": 1e-5,
            "rope_theta": 20000.0}"#,
        )
        .config_key("rms_norm_eps", "layer_norm_eps")
        .tensor_names(TensorNames {
            prefixes: vec!["".into(), "roberta.".into()],
            embedding: "embeddings.word_embeddings".into(),
            token_types: "embeddings.token_type_embeddings".into(),
            embedding_norm: "emb_ln".into(),
            q: "".into(),
            qkv: "encoder.layers.{}.mixer.Wqkv".into(),
            o: "encoder.layers.{}.mixer.out_proj".into(),
            attention_residual_norm: "encoder.layers.{}.norm1".into(),
            up: "encoder.layers.{}.mlp.fc1".into(),
            down: "encoder.layers.{}.mlp.fc2".into(),
            mlp_residual_norm: "encoder.layers.{}.norm2".into(),
            score_dense: "classifier.dense".into(),
            score_output: "classifier.out_proj".into(),
            ..TensorNames::hugging_face()
        })
        .encoder()
        .spec_from_config(|config| {
            let mut spec = bert::from_encoder_config(config)?;
            spec.gate = FeedForwardGate::None;
            Ok(spec)
        })
        .gguf("jina-bert-v3")
        .spec_from_gguf(|metadata| {
            let mut spec = bert::from_gguf(metadata)?;
            spec.gate = FeedForwardGate::None;
            spec.activation = Activation::Gelu;
            Ok(spec)
        })
}

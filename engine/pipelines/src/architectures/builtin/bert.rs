//! BERT: an encoder with learned positions, segment types, biases, layer norms after the residual
//! sums and a feed-forward network without gate.

use wisp_graph::{Activation, NormKind};

use super::gpt2;
use crate::{
    architectures::{
        architecture::Architecture, error::ArchitectureError, gguf_metadata::GgufMetadata,
        hf_config::HfConfig,
    },
    spec::{DecoderSpec, EncoderSpec, NormPlacement, ScoreHead, TensorNames},
};

/// Of the heads for tasks, which some checkpoints have, only the one that scores texts is used.
pub(super) fn architecture() -> Architecture {
    Architecture::new("bert")
        .config_classes([
            "BertModel",
            "BertForMaskedLM",
            "BertForPreTraining",
            "BertForSequenceClassification",
            "BertForTokenClassification",
            "BertForQuestionAnswering",
        ])
        .config_defaults(
            r#"{"vocab_size": 30522, "hidden_size": 768, "intermediate_size": 3072,
            "num_hidden_layers": 12, "num_attention_heads": 12, "hidden_act": "gelu",
            "max_position_embeddings": 512, "type_vocab_size": 2, "rms_norm_eps": 1e-12,
            "pad_token_id": 0}"#,
        )
        .config_key("rms_norm_eps", "layer_norm_eps")
        .tensor_names(tensor_names())
        .encoder()
        .spec_from_config(from_config)
        .gguf("bert")
        .spec_from_gguf(|metadata| {
            let mut spec = from_gguf(metadata)?;
            gpt2::use_gpt2_layers(&mut spec);
            spec.activation = Activation::Gelu;
            // Converters of XLM-RoBERTa drop the rows before its first position.
            let positions = metadata.weight_rows("position_embd");
            spec.max_positions = positions.unwrap_or(spec.max_positions);
            Ok(spec)
        })
}

pub(super) fn tensor_names() -> TensorNames {
    TensorNames {
        prefixes: vec!["".into(), "bert.".into()],
        embedding: "embeddings.word_embeddings".into(),
        positions: "embeddings.position_embeddings".into(),
        token_types: "embeddings.token_type_embeddings".into(),
        embedding_norm: "embeddings.LayerNorm".into(),
        q: "encoder.layer.{}.attention.self.query".into(),
        k: "encoder.layer.{}.attention.self.key".into(),
        v: "encoder.layer.{}.attention.self.value".into(),
        o: "encoder.layer.{}.attention.output.dense".into(),
        attention_residual_norm: "encoder.layer.{}.attention.output.LayerNorm".into(),
        up: "encoder.layer.{}.intermediate.dense".into(),
        down: "encoder.layer.{}.output.dense".into(),
        mlp_residual_norm: "encoder.layer.{}.output.LayerNorm".into(),
        score_dense: "bert.pooler.dense".into(),
        score_output: "classifier".into(),
        ..TensorNames::hugging_face()
    }
}

pub(super) fn from_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    config.require_text("position_embedding_type", "absolute")?;
    config.require_bool("is_decoder", false)?;
    let mut spec = from_encoder_config(config)?;
    gpt2::use_gpt2_layers(&mut spec);
    Ok(spec)
}

/// Returns an encoder like BERT, but with rotation and a gated feed-forward.
pub(super) fn from_encoder_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = config.decoder_spec()?;
    let token_types = config.u64("type_vocab_size")?;
    make_encoder(&mut spec, token_types, config.score_labels()?);
    Ok(spec)
}

/// Returns the same of a GGUF file.
pub(super) fn from_gguf(metadata: &GgufMetadata<'_>) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = metadata.decoder_spec()?;
    let token_types = metadata.weight_rows("token_types").unwrap_or(0);
    make_encoder(&mut spec, token_types, metadata.score_labels());
    Ok(spec)
}

fn make_encoder(spec: &mut DecoderSpec, token_types: u64, labels: Option<u64>) {
    spec.norm.kind = NormKind::Layer;
    spec.norm_placement = NormPlacement::PostResidual;
    spec.encoder = Some(EncoderSpec {
        token_types,
        padding: None,
        score: labels.map(ScoreHead::bert),
        ..EncoderSpec::bidirectional()
    });
}

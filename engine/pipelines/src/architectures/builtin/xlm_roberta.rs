//! RoBERTa and XLM-RoBERTa: BERT with positions that start after the padding token's id.

use super::bert;
use crate::{architectures::architecture::Architecture, spec::TensorNames};

/// GGUF files name `bert`.
pub(super) fn architecture() -> Architecture {
    bert::architecture()
        .derived("xlm_roberta")
        .config_classes([
            "XLMRobertaModel",
            "XLMRobertaForMaskedLM",
            "XLMRobertaForSequenceClassification",
            "XLMRobertaForTokenClassification",
            "XLMRobertaForQuestionAnswering",
            "RobertaModel",
            "RobertaForMaskedLM",
            "RobertaForSequenceClassification",
            "CamembertModel",
            "CamembertForMaskedLM",
        ])
        .config_defaults(
            r#"{"vocab_size": 30522, "hidden_size": 768, "intermediate_size": 3072,
            "num_hidden_layers": 12, "num_attention_heads": 12, "hidden_act": "gelu",
            "max_position_embeddings": 512, "type_vocab_size": 2, "rms_norm_eps": 1e-12,
            "pad_token_id": 1}"#,
        )
        .tensor_names(TensorNames {
            prefixes: vec!["".into(), "roberta.".into()],
            score_dense: "classifier.dense".into(),
            score_output: "classifier.out_proj".into(),
            ..bert::tensor_names()
        })
        .spec_from_config(|config| {
            let mut spec = bert::from_config(config)?;
            let padding = config.u32_or("pad_token_id", 1)?;
            let positions = spec.max_positions.checked_sub(u64::from(padding) + 1);
            let Some(positions @ 1..) = positions else {
                return Err(config.error(format!(
                    "`max_position_embeddings` is {}, but positions start after `pad_token_id`, \
                     {padding}",
                    spec.max_positions
                )));
            };
            spec.max_positions = positions;
            if let Some(encoder) = &mut spec.encoder {
                encoder.padding = Some(padding);
            }
            Ok(spec)
        })
}

//! RoBERTa and XLM-RoBERTa: BERT with positions that count from the one after the padding token.

use super::{super::spec::TensorNames, Architecture, bert, hf_config::problem};

/// In GGUF both are `bert`.
pub const XLM_ROBERTA: Architecture = Architecture {
    name: "xlm_roberta",
    hugging_face: &[
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
    ],
    gguf: "",
    defaults: r#"{"vocab_size": 30522, "hidden_size": 768, "intermediate_size": 3072,
        "num_hidden_layers": 12, "num_attention_heads": 12, "hidden_act": "gelu",
        "max_position_embeddings": 512, "type_vocab_size": 2, "rms_norm_eps": 1e-12,
        "pad_token_id": 1}"#,
    names: TensorNames {
        roots: &["", "roberta."],
        ..bert::BERT.names
    },
    from_hugging_face: |config| {
        let mut spec = (bert::BERT.from_hugging_face)(config)?;
        let padding = config.optional_u32("pad_token_id")?.unwrap_or(1);
        let left = spec.max_positions.checked_sub(u64::from(padding) + 1);
        spec.max_positions = left.filter(|left| *left > 0).ok_or_else(|| {
            problem(format!(
                "`max_position_embeddings` is {}, but positions begin after `pad_token_id`, {padding}",
                spec.max_positions
            ))
        })?;
        if let Some(encoder) = &mut spec.encoder {
            encoder.padding = Some(padding);
        }
        Ok(spec)
    },
    ..bert::BERT
};

//! The files that a checkpoint may have beside its weights.

use super::files::MODELOPT_CONFIG;

/// The index of safetensors in several files.
pub(crate) const SAFETENSORS_INDEX: &str = "model.safetensors.index.json";

/// The index of PyTorch's weights in several files.
pub(crate) const PYTORCH_INDEX: &str = "pytorch_model.bin.index.json";

/// Files beside the weights that describe a model and its tokenizer.
pub(crate) const COMPANIONS: &[&str] = &[
    "1_Pooling/config.json",
    "2_Dense/config.json",
    "2_Dense/model.safetensors",
    "3_Dense/config.json",
    "3_Dense/model.safetensors",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "config_sentence_transformers.json",
    "generation_config.json",
    MODELOPT_CONFIG,
    "merges.txt",
    "modules.json",
    SAFETENSORS_INDEX,
    PYTORCH_INDEX,
    "sentence_bert_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
];

//! Which special tokens a GGUF file names, and which of them encoding adds.

use super::keys;
use super::kinds::Kind;
use super::metadata::GgufMetadata;
use super::pre_tokenizer_table::PreTokenizerRules;

/// The ids of special tokens.
pub struct SpecialIds {
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub unknown: Option<u32>,
    pub separator: Option<u32>,
}

impl SpecialIds {
    /// Reads the ids. One that is not in the vocabulary of `size` tokens is ignored with a warning.
    pub fn read(
        metadata: &dyn GgufMetadata,
        kind: &Kind,
        size: usize,
        warnings: &mut Vec<String>,
    ) -> Self {
        let in_range = |id: u64| u32::try_from(id).ok().filter(|_| id < size as u64);
        let mut read = |key: &'static str, default: Option<u64>| {
            let default = default.and_then(in_range);
            let Some(id) = metadata.uint(key) else {
                return default;
            };
            let found = in_range(id);
            if found.is_none() {
                warnings.push(format!(
                    "{key} = {id} is ignored: the vocabulary has {size} tokens"
                ));
            }
            found.or(default)
        };
        let names_bos = !matches!(
            metadata.string(keys::PRE_TOKENIZER),
            Some("glm4" | "chatglm-bpe")
        );
        // BERT files may name their first token only as the token of the class.
        let first = read(
            "tokenizer.ggml.cls_token_id",
            kind.bos.filter(|_| names_bos),
        );
        Self {
            bos: read("tokenizer.ggml.bos_token_id", first.map(u64::from)),
            eos: read("tokenizer.ggml.eos_token_id", kind.eos),
            unknown: read("tokenizer.ggml.unknown_token_id", kind.unknown),
            // The key is misspelt in the format.
            separator: read("tokenizer.ggml.seperator_token_id", kind.separator),
        }
    }
}

/// The special tokens that encoding adds.
pub struct AddedSpecials {
    pub bos: bool,
    pub eos: bool,
    pub separator: bool,
}

impl AddedSpecials {
    /// Reads which tokens are added. `rules` are those of the pre-tokenizer, if the kind has one.
    pub fn read(
        metadata: &dyn GgufMetadata,
        kind: &Kind,
        rules: Option<&PreTokenizerRules>,
    ) -> Self {
        let by_rules = rules.is_some_and(|rules| rules.add_bos);
        let is_plain_text = rules.is_some_and(|rules| !rules.byte_level);
        let read = |key, default| metadata.boolean(key).unwrap_or(default);
        Self {
            // BERT always begins with BOS. Gemma 4's files deny theirs by mistake.
            bos: kind.model == "bert"
                || (is_plain_text && by_rules)
                || read("tokenizer.ggml.add_bos_token", kind.add_bos || by_rules),
            eos: read("tokenizer.ggml.add_eos_token", kind.add_eos),
            separator: kind.add_separator,
        }
    }
}

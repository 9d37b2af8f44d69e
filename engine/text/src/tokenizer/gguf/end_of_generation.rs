//! The tokens of a GGUF vocabulary that end generation. A file names one or two of them by id; the
//! others are known by their texts, as in llama.cpp.

use std::collections::BTreeSet;

use super::metadata::GgufMetadata;
use super::vocabulary::{TokenKind, Vocabulary};

/// Texts that end generation in every vocabulary that has them.
const TEXTS: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<|file_sep|>",
];

/// Texts that end generation unless they are ordinary text in a vocabulary: in Qwen 2's, `</s>` is
/// HTML. (llama.cpp takes them for control tokens in any case.)
const TEXTS_UNLESS_NORMAL: &[&str] = &[
    "</s>",
    "<eos>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<PAD>",
    "[PAD]",
    "<REPO>",
    "<reponame>",
];

/// Keys of ids that end generation: end of turn, end of message, fill-in-the-middle separators.
const KEYS: &[&str] = &[
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.fim_pad_token_id",
    "tokenizer.ggml.fim_rep_token_id",
    "tokenizer.ggml.fim_sep_token_id",
];

/// Texts of o200k_harmony that are shown as parts of the answer.
const VISIBLE_TEXTS: &[&str] = &["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"];

/// Returns the ids that end generation, and corrects the kinds of tokens that converters get wrong.
pub fn mark(
    metadata: &dyn GgufMetadata,
    vocabulary: &mut Vocabulary,
    eos: Option<u32>,
) -> BTreeSet<u32> {
    let unless_normal = TEXTS_UNLESS_NORMAL
        .iter()
        .filter_map(|text| vocabulary.id(text));
    let unless_normal = unless_normal.filter(|&id| vocabulary.kind(id) != TokenKind::Normal);
    let texts = TEXTS.iter().filter_map(|text| vocabulary.id(text));
    let mut end: BTreeSet<u32> = texts.chain(unless_normal).collect();
    for &id in &end {
        vocabulary.set_kind(id, TokenKind::Control);
    }
    for text in VISIBLE_TEXTS {
        if let Some(id) = vocabulary.id(text) {
            vocabulary.set_kind(id, TokenKind::UserDefined);
        }
    }
    let keys = KEYS.iter().filter_map(|key| metadata.uint(key));
    let keys = keys.filter_map(|id| u32::try_from(id).ok());
    end.extend(keys.filter(|&id| vocabulary.text(id).is_some()));
    end.extend(eos);
    for (id, kind) in exceptions(vocabulary, &end) {
        end.remove(&id);
        vocabulary.set_kind(id, kind);
    }
    end
}

/// Returns the tokens that end generation in other vocabularies only, and their kinds in this one.
fn exceptions(vocabulary: &Vocabulary, end: &BTreeSet<u32>) -> Vec<(u32, TokenKind)> {
    let ends = |text: &str| vocabulary.id(text).filter(|id| end.contains(id));
    let has = |text: &str| ends(text).is_some();
    // In o200k_harmony and Solar, <|end|> only separates messages.
    let separates = (has("<|return|>") && has("<|call|>"))
        || (has("<|flush|>") && (has("<|call|>") || has("<|calls|>")));
    let visible = ends("<|end|>").filter(|_| separates);
    // In Gemma 4, </s> is HTML.
    let html = ends("</s>").filter(|_| has("<|tool_response>"));
    let visible = visible.map(|id| (id, TokenKind::UserDefined));
    let html = html.map(|id| (id, TokenKind::Normal));
    visible.into_iter().chain(html).collect()
}

//! The prompt with which a language model judges whether a document fits a query.

use wisp_text::tokenizer::{PairTokens, Tokenizer, TokenizerError};

use crate::spec::DecoderSpec;

/// The prompt of Qwen3-Reranker (Zhang et al. 2025, "Qwen3 Embedding"), before the query and after the document. Its
/// control tokens are the model's own.
const BEFORE: &str = "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the \
    Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n";
const AFTER: &str = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

/// The task that the model's authors evaluate it with.
const INSTRUCTION: &str =
    "Given a web search query, retrieve relevant passages that answer the query";

/// True if a model judges documents by its prompt rather than as an encoder's tokenizer joins two texts.
pub(super) fn judges(spec: &DecoderSpec) -> bool {
    let encoder = spec.encoder;
    encoder.is_some_and(|encoder| encoder.causal && encoder.score.is_some())
}

/// Returns the tokens of the prompt, in which query and document are text, whatever they spell. Tokens beyond `most`
/// are cut from the end of the document.
///
/// # Errors
///
/// If the vocabulary has no token for a part of the text.
pub(super) fn prompt(
    tokenizer: &Tokenizer,
    query: &str,
    document: &str,
    most: usize,
) -> Result<PairTokens, TokenizerError> {
    let before = tokenizer.encode(BEFORE, false, true)?;
    let text = format!("<Instruct>: {INSTRUCTION}\n<Query>: {query}\n<Document>: {document}");
    let mut text = tokenizer.encode(&text, false, false)?;
    let after = tokenizer.encode(AFTER, false, true)?;
    let room = most.saturating_sub(before.len() + after.len());
    let cut = text.len().saturating_sub(room);
    text.truncate(room);
    let tokens = [before, text, after].concat();
    Ok(PairTokens {
        types: vec![0; tokens.len()],
        tokens,
        cut,
    })
}

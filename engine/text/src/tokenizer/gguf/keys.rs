//! Metadata keys that several modules read.

/// The kind of the tokenizer.
pub const KIND: &str = "tokenizer.ggml.model";
/// The name of the pre-tokenizer.
pub const PRE_TOKENIZER: &str = "tokenizer.ggml.pre";
/// The texts of the tokens.
pub const TOKENS: &str = "tokenizer.ggml.tokens";
/// The scores of the tokens (SPM and unigram).
pub const SCORES: &str = "tokenizer.ggml.scores";
/// The kinds of the tokens.
pub const TOKEN_TYPES: &str = "tokenizer.ggml.token_type";
/// The merges of BPE, best first.
pub const MERGES: &str = "tokenizer.ggml.merges";
/// The normalization table of unigram models.
pub const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";
/// The default chat template; named ones follow after a dot.
pub const CHAT_TEMPLATE: &str = "tokenizer.chat_template";

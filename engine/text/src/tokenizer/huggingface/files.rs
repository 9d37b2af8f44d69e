//! The files that describe a tokenizer.

/// The files of a checkpoint that describe its tokenizer, in memory. Only `tokenizer.json` is
/// required.
#[derive(Debug, Clone, Copy, Default)]
pub struct HuggingFaceFiles<'f> {
    /// `tokenizer.json`.
    pub tokenizer: &'f [u8],
    /// `tokenizer_config.json`.
    pub tokenizer_config: Option<&'f [u8]>,
    /// `special_tokens_map.json`.
    pub special_tokens_map: Option<&'f [u8]>,
    /// `added_tokens.json`.
    pub added_tokens: Option<&'f [u8]>,
    /// `generation_config.json`.
    pub generation_config: Option<&'f [u8]>,
    /// `config.json`, which has the ids of models without a `generation_config.json`.
    pub config: Option<&'f [u8]>,
    /// `chat_template.jinja`.
    pub chat_template: Option<&'f [u8]>,
    /// `chat_template.json`.
    pub chat_template_json: Option<&'f [u8]>,
}

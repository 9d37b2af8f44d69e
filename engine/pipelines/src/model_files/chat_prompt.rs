//! A conversation as a model's prompt.

use serde_json::Map;
use wisp_text::{
    chat_template::{ChatTemplate, ChatTemplateError, ControlTokens, Message},
    tokenizer::Tokenizer,
};

use super::error::ModelFilesError;

/// Renders a conversation with the chat template of a tokenizer, up to where the answer starts, and
/// encodes it. `name` names the model in error messages.
///
/// # Errors
///
/// If there is no chat template, or it refuses the conversation.
pub(crate) fn render_chat(
    name: &str,
    tokenizer: &Tokenizer,
    messages: &[Message],
    control_tokens: ControlTokens,
) -> Result<Vec<u32>, ModelFilesError> {
    let template = ChatTemplate::for_tokenizer(tokenizer);
    let prompt = template.and_then(|template| {
        template.render_and_encode(tokenizer, messages, true, &Map::new(), control_tokens)
    });
    prompt.map_err(|error| match error {
        ChatTemplateError::Tokenizer(error) => error.into(),
        error => ModelFilesError::File {
            file: name.into(),
            problem: error.to_string(),
        },
    })
}

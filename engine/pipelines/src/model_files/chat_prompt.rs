//! A conversation as a model's prompt.

use wisp_text::{
    chat::{ChatPrompt, ChatRequest, ChatTemplates},
    chat_template::ChatTemplateError,
};

use super::error::ModelFilesError;

/// Renders a conversation with the chat templates of a tokenizer, up to where the answer starts, and
/// encodes it. `name` names the model in error messages.
///
/// # Errors
///
/// If there is no chat template, or it refuses the conversation.
pub(crate) fn prepare_chat(
    name: &str,
    templates: &ChatTemplates,
    request: &ChatRequest,
) -> Result<ChatPrompt, ModelFilesError> {
    let prompt = request.prepare_with(templates);
    prompt.map_err(|error| match error {
        ChatTemplateError::Tokenizer(error) => error.into(),
        error => ModelFilesError::File {
            file: name.into(),
            problem: error.to_string(),
        },
    })
}

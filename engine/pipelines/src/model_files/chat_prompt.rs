//! A conversation as a model's prompt.

use serde_json::Map;
use wisp_text::{
    chat_template::{ChatTemplate, Message},
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
) -> Result<Vec<u32>, ModelFilesError> {
    let problem = |problem: String| ModelFilesError::File {
        file: name.into(),
        problem,
    };
    let source = tokenizer.chat_template(None).ok_or_else(|| {
        problem("it has no chat template: it can continue texts, but not converse".into())
    })?;
    let special = |id: Option<u32>| id.and_then(|id| tokenizer.token(id)).unwrap_or_default();
    let (bos, eos) = (special(tokenizer.bos()), special(tokenizer.eos_token()));
    let render = || ChatTemplate::new(source, &bos, &eos)?.render(messages, true, &Map::new());
    let text = render().map_err(|error| problem(error.to_string()))?;
    let mut tokens = tokenizer.encode(&text, false, true)?;
    // Most templates write BOS; some leave it to the tokenizer.
    if let Some(bos) = tokenizer.bos()
        && tokenizer.adds_bos()
        && tokens.first() != Some(&bos)
    {
        tokens.insert(0, bos);
    }
    Ok(tokens)
}

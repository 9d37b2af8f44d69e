//! The compiled chat templates of a tokenizer.

use std::sync::OnceLock;

use crate::chat_template::{ChatTemplate, ChatTemplateError};
use crate::tokenizer::Tokenizer;

/// The name of the template for conversations with tools, where a model has several.
const TOOL_TEMPLATE: &str = "tool_use";

/// The chat templates of a tokenizer, each compiled when a conversation needs it for the first time.
#[derive(Debug)]
pub struct ChatTemplates {
    tokenizer: Tokenizer,
    default: OnceLock<ChatTemplate>,
    /// The template for conversations with tools, where there is one of its own.
    tool_use: OnceLock<ChatTemplate>,
}

impl ChatTemplates {
    /// Creates the templates of a tokenizer, of which none is compiled yet.
    pub fn new(tokenizer: &Tokenizer) -> ChatTemplates {
        ChatTemplates {
            tokenizer: tokenizer.clone(),
            default: OnceLock::new(),
            tool_use: OnceLock::new(),
        }
    }

    /// Returns the tokenizer.
    pub(super) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Returns the template of conversations with or without tools.
    ///
    /// # Errors
    ///
    /// If the tokenizer has none, or it is not valid Jinja.
    pub(super) fn get(&self, has_tools: bool) -> Result<&ChatTemplate, ChatTemplateError> {
        let has_own = has_tools && self.tokenizer.chat_template(Some(TOOL_TEMPLATE)).is_some();
        let (name, compiled) = match has_own {
            true => (Some(TOOL_TEMPLATE), &self.tool_use),
            false => (None, &self.default),
        };
        if let Some(template) = compiled.get() {
            return Ok(template);
        }
        // Two conversations at a time may both compile it. The first result is kept.
        let template = ChatTemplate::named(&self.tokenizer, name)?;
        Ok(compiled.get_or_init(|| template))
    }
}

#[cfg(test)]
mod tests {
    use crate::tokenizer::HuggingFaceFiles;

    use super::*;

    #[test]
    fn conversations_with_tools_use_the_template_for_tools() {
        let config = br#"{"chat_template": [
            {"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]}"#;
        let tokenizer = Tokenizer::from_files(&HuggingFaceFiles {
            tokenizer: br#"{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}"#,
            tokenizer_config: Some(config),
            ..HuggingFaceFiles::default()
        });
        let templates = ChatTemplates::new(&tokenizer.unwrap());
        for (has_tools, source) in [(false, "plain"), (true, "tools")] {
            assert_eq!(templates.get(has_tools).unwrap().source(), source);
        }
    }
}

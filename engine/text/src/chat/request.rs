//! What a model is asked.

use serde_json::{Map, Value};

use crate::chat_template::{ControlTokens, Message};
use crate::tools::{ToolChoice, ToolError, Tools};

/// A conversation that a model continues, and what it may do.
///
/// Messages have the fields of OpenAI's interface: `tool_calls` and `reasoning_content` of assistants,
/// and `tool_call_id` of results with the role `tool`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ChatRequest {
    /// The conversation.
    pub messages: Vec<Message>,
    /// Whether the model thinks before it answers, if it can do both; `None` leaves it to the template.
    pub thinking: Option<bool>,
    /// The most characters of a thought, after which the model must answer.
    pub thinking_limit: Option<usize>,
    /// Further variables for the template, such as `documents`.
    pub variables: Map<String, Value>,
    /// Which text of the conversation may become control tokens.
    pub control_tokens: ControlTokens,
    tools: Tools,
    tool_choice: ToolChoice,
    parallel_calls: bool,
}

impl ChatRequest {
    /// Creates a request without tools.
    pub fn new(messages: impl Into<Vec<Message>>) -> ChatRequest {
        ChatRequest {
            messages: messages.into(),
            thinking: None,
            thinking_limit: None,
            variables: Map::new(),
            control_tokens: ControlTokens::FromTemplateOnly,
            tools: Tools::default(),
            tool_choice: ToolChoice::Auto,
            parallel_calls: true,
        }
    }

    /// Offers tools. `parallel` allows several calls in one answer.
    ///
    /// # Errors
    ///
    /// If the choice names a tool that is not offered, or demands a call where there are none.
    pub fn with_tools(
        mut self,
        tools: Tools,
        choice: ToolChoice,
        parallel: bool,
    ) -> Result<ChatRequest, ToolError> {
        choice.check(&tools)?;
        self.tools = tools;
        self.tool_choice = choice;
        self.parallel_calls = parallel;
        Ok(self)
    }

    /// Returns the tools that the model may call: none if it must not call any.
    pub fn tools(&self) -> Option<&Tools> {
        let may_call = !self.tools.is_empty() && self.tool_choice != ToolChoice::None;
        may_call.then_some(&self.tools)
    }

    /// Returns whether the model must call a tool.
    pub fn tool_choice(&self) -> &ToolChoice {
        &self.tool_choice
    }

    /// Returns whether an answer may have several calls.
    pub fn parallel_calls(&self) -> bool {
        self.parallel_calls
    }
}

//! What a model is asked.

use serde_json::{Map, Value};

use super::continuation::AnswerStart;
use super::effort::ReasoningEffort;
use crate::chat_template::{ControlTokens, Message};
use crate::grammar::Constraint;
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
    /// The most tokens of a thought, after which the model must answer.
    pub thinking_limit: Option<usize>,
    /// Further variables for the template, such as `documents`.
    pub variables: Map<String, Value>,
    /// Which text of the conversation may become control tokens.
    pub control_tokens: ControlTokens,
    /// Where the answer begins.
    pub start: AnswerStart,
    /// What the answer must match unless it is a call. Thoughts come before it as they do elsewhere, except that with a
    /// grammar in Lark no model thinks, and with a regular expression only models with channels do. Beside a grammar in
    /// Lark, the model calls no tools.
    pub answer: Option<Constraint>,
    tools: Tools,
    /// The tools that the model may call, if these are not all.
    callable: Option<Tools>,
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
            start: AnswerStart::default(),
            answer: None,
            tools: Tools::default(),
            callable: None,
            tool_choice: ToolChoice::Auto,
            parallel_calls: true,
        }
    }

    /// Sets the variables of the template. `enable_thinking` among them says whether the model thinks.
    pub fn set_variables(&mut self, variables: Map<String, Value>) {
        let thinking = variables.get("enable_thinking").and_then(Value::as_bool);
        self.thinking = thinking.or(self.thinking);
        self.variables = variables;
    }

    /// Sets how much the model thinks. Whether it thinks at all is left as it is if that is set already.
    pub fn set_effort(&mut self, effort: ReasoningEffort) {
        let thinks = effort != ReasoningEffort::None;
        self.thinking = self.thinking.or(Some(thinks));
        if thinks {
            let effort = serde_json::json!(effort);
            self.variables.insert("reasoning_effort".into(), effort);
        }
    }

    /// Offers tools. `parallel` allows several calls in one answer, unless the choice names the function to be called:
    /// that one is called once, as at OpenAI.
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
        self.parallel_calls = parallel && !matches!(choice, ToolChoice::Function(_));
        self.tool_choice = choice;
        Ok(self)
    }

    /// Lets the model call the tools of these names only. The prompt describes the others too.
    ///
    /// # Errors
    ///
    /// If a tool is not offered, or none is left.
    pub fn with_allowed_tools<'n>(
        mut self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<ChatRequest, ToolError> {
        self.callable = Some(self.tools.only(names)?);
        Ok(self)
    }

    /// Returns the tools that the prompt describes: none if the model must not call any.
    pub fn tools(&self) -> Option<&Tools> {
        let may_call = !self.tools.is_empty() && self.tool_choice != ToolChoice::None;
        may_call.then_some(&self.tools)
    }

    /// Returns the tools that the model may call.
    pub fn callable_tools(&self) -> Option<&Tools> {
        let tools = self.tools()?;
        Some(self.callable.as_ref().unwrap_or(tools))
    }

    /// Returns whether the model must call a tool.
    pub fn tool_choice(&self) -> &ToolChoice {
        &self.tool_choice
    }

    /// Returns whether the model must call a tool, so that its answer has no text.
    pub fn demands_call(&self) -> bool {
        self.tools().is_some() && self.tool_choice != ToolChoice::Auto
    }

    /// Returns whether an answer may have several calls.
    pub fn parallel_calls(&self) -> bool {
        self.parallel_calls
    }
}

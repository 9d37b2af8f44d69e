//! From a request to a prompt.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::history::{self, TemplateTraits};
use super::parser::ChatFormat;
use super::request::ChatRequest;
use crate::chat_template::{ChatTemplate, ChatTemplateError, Message, RenderedPrompt};
use crate::grammar::{Constraint, Grammar};
use crate::reasoning::{ReasoningFormat, ReasoningParser};
use crate::tokenizer::Tokenizer;
use crate::tools::{AnswerSyntax, Thought, ToolFormat};

/// The name of the template for conversations with tools, where a model has several.
const TOOL_TEMPLATE: &str = "tool_use";

/// A conversation as a prompt, and what is needed to understand the answer.
#[derive(Debug, Clone)]
pub struct ChatPrompt {
    /// The prompt.
    pub text: String,
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// How its answers are split.
    pub format: ChatFormat,
    /// Control tokens that must be in the answer's text, because they mark its parts.
    pub visible_tokens: BTreeSet<u32>,
    /// What keeps calls within the tools' schemas, and demands them if the model must call; `None` if
    /// there are no tools.
    pub constraint: Option<Constraint>,
    /// The constraint, compiled for the tokenizer by whoever prepares the prompt for a model.
    pub grammar: Option<Grammar>,
}

impl ChatRequest {
    /// Renders the conversation with a tokenizer's chat template, up to the beginning of the answer.
    ///
    /// # Errors
    ///
    /// If there is no chat template, or it refuses the conversation, fails or exceeds its limits.
    pub fn prepare(&self, tokenizer: &Tokenizer) -> Result<ChatPrompt, ChatTemplateError> {
        let template = match self.tools() {
            Some(_) if tokenizer.chat_template(Some(TOOL_TEMPLATE)).is_some() => {
                ChatTemplate::named(tokenizer, Some(TOOL_TEMPLATE))?
            }
            _ => ChatTemplate::for_tokenizer(tokenizer)?,
        };
        let thoughts = ReasoningFormat::of_template(template.source());
        let mut prompt = self.render(&template, tokenizer)?;
        let mut text = prompt.text();
        if let (Some(format), Some(false)) = (thoughts, self.thinking)
            && format.is_open_in(&text)
        {
            let closing = format.closing(&text);
            prompt.push_trusted(&closing);
            text += &closing;
        }
        let format = self.tool_format(&template, tokenizer);
        let control_token = |text: &str| {
            let id = tokenizer.id(text)?;
            tokenizer.is_special(id).then_some(id)
        };
        let markers = thoughts
            .iter()
            .flat_map(|format| [format.open, format.close]);
        let tool_markers = format.iter().flat_map(|format| format.markers());
        let visible_tokens = markers
            .chain(tool_markers)
            .filter_map(control_token)
            .collect();
        let reasoning = thoughts.map(|format| ReasoningParser::new(format, &text));
        let constraint = format.zip(self.tools()).map(|(format, tools)| {
            let thought = thoughts.filter(|format| !format.is_closed_in(&text));
            let syntax = AnswerSyntax {
                choice: self.tool_choice(),
                parallel: self.parallel_calls(),
                thought: thought.map(|format| Thought {
                    open: (!format.is_open_in(&text)).then_some(format.open),
                    close: format.close,
                }),
                control_token: &control_token,
            };
            Constraint::Lark(format.grammar(tools, &syntax))
        });
        let tools = format.zip(self.tools());
        let tools = tools.map(|(format, tools)| (format, tools.clone(), self.parallel_calls()));
        Ok(ChatPrompt {
            tokens: prompt.encode(tokenizer)?,
            text,
            format: ChatFormat { reasoning, tools },
            visible_tokens,
            constraint,
            grammar: None,
        })
    }

    /// Returns the format of calls, if there may be any.
    fn tool_format(
        &self,
        template: &ChatTemplate,
        tokenizer: &Tokenizer,
    ) -> Option<&'static ToolFormat> {
        self.tools()?;
        let source = template.source();
        match TemplateTraits::of(source).describes_tools {
            true => Some(ToolFormat::of_model(source, |token| {
                tokenizer.id(token).is_some()
            })),
            // The prompt asks for it.
            false => Some(&crate::tools::GENERIC),
        }
    }

    fn render(
        &self,
        template: &ChatTemplate,
        tokenizer: &Tokenizer,
    ) -> Result<RenderedPrompt, ChatTemplateError> {
        let traits = TemplateTraits::of(template.source());
        let messages = history::messages(&self.messages, self.tools(), traits);
        let variables = self.template_variables();
        let render = |messages: &[Message]| {
            let policy = self.control_tokens;
            template.render_prompt(tokenizer, messages, true, &variables, policy, |_| true)
        };
        match render(&messages) {
            // Some templates take no system message.
            Err(ChatTemplateError::Refused { .. })
                if self.tools().is_some() && !traits.describes_tools =>
            {
                render(&history::without_system(messages))
            }
            // Some templates join arguments to text.
            Err(ChatTemplateError::Failed { .. }) if history::have_calls(&messages) => {
                render(&history::with_text_arguments(messages))
            }
            rendered => rendered,
        }
    }

    fn template_variables(&self) -> Map<String, Value> {
        let mut variables = self.variables.clone();
        // Which text is a control token is not for the conversation to say.
        variables.retain(|name, _| !name.ends_with("_token"));
        if let Some(tools) = self.tools() {
            variables.insert("tools".into(), tools.to_json());
        }
        if let Some(thinking) = self.thinking {
            for name in ["enable_thinking", "thinking"] {
                variables.entry(name).or_insert(thinking.into());
            }
        }
        variables
    }
}

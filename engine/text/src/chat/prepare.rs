//! From a request to a prompt.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::harmony::{self, HarmonyParser};
use super::history::{self, TemplateTraits};
use super::parser::ChatFormat;
use super::request::ChatRequest;
use crate::chat_template::{ChatTemplate, ChatTemplateError, Message, RenderedPrompt};
use crate::grammar::{Constraint, Grammar, ToolCalls};
use crate::reasoning::{ReasoningFormat, ReasoningParser};
use crate::tokenizer::Tokenizer;
use crate::tools::{self, AnswerSyntax, Thought, ToolFormat};

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
    /// What keeps calls within the tools' schemas and thoughts within their limit, and demands calls if the
    /// model must call; `None` if answers are free.
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
        let mut prompt = self.render(&template, tokenizer)?;
        let mut text = prompt.text();
        let source = template.source();
        let is_harmony = harmony::is_shown_in(source);
        let thoughts = ReasoningFormat::of_template(source).filter(|_| !is_harmony);
        if let (Some(format), Some(false)) = (thoughts, self.thinking)
            && format.is_open_in(&text)
        {
            let closing = format.closing(&text);
            prompt.push_trusted(&closing);
            text += &closing;
        }
        let control_token = |text: &str| {
            let id = tokenizer.id(text)?;
            tokenizer.is_special(id).then_some(id)
        };
        let parallel = self.parallel_calls();
        let tools = self.tools().cloned();
        let (format, constraint) = match is_harmony {
            true => {
                let parser = HarmonyParser::new(tools.clone().unwrap_or_default(), parallel);
                let choice = self.tool_choice();
                let rules =
                    tools.and_then(|tools| harmony::grammar(&tools, choice, &control_token));
                let format = ChatFormat {
                    harmony: Some(parser),
                    ..ChatFormat::default()
                };
                (format, rules)
            }
            false => {
                let calls =
                    tools.map(|tools| (self.tool_format(source, tokenizer), tools, parallel));
                let format = ChatFormat {
                    reasoning: thoughts.map(|format| ReasoningParser::new(format, &text)),
                    tools: calls,
                    harmony: None,
                };
                let rules = self.rules(&format, thoughts, &text, &control_token);
                (format, rules)
            }
        };
        Ok(ChatPrompt {
            tokens: prompt.encode(tokenizer)?,
            visible_tokens: format.markers().filter_map(control_token).collect(),
            text,
            format,
            constraint: constraint.map(Constraint::ToolCalls),
            grammar: None,
        })
    }

    /// Returns the grammar of answers, if they must follow one.
    fn rules(
        &self,
        format: &ChatFormat,
        thoughts: Option<&ReasoningFormat>,
        prompt: &str,
        control_token: &dyn Fn(&str) -> Option<u32>,
    ) -> Option<ToolCalls> {
        let thought = thoughts.filter(|format| !format.is_closed_in(prompt));
        let thought = thought.map(|format| Thought {
            open: (!format.is_open_in(prompt)).then_some(format.open),
            close: format.close,
            limit: self.thinking_limit,
        });
        match &format.tools {
            Some((format, tools, parallel)) => {
                let syntax = AnswerSyntax {
                    choice: self.tool_choice(),
                    parallel: *parallel,
                    thought,
                    control_token,
                };
                Some(format.grammar(tools, &syntax))
            }
            None => {
                let limited = thought.filter(|thought| thought.countable().is_some());
                limited.map(|thought| tools::thought_grammar(thought, control_token))
            }
        }
    }

    /// Returns the format of calls.
    fn tool_format(&self, source: &str, tokenizer: &Tokenizer) -> &'static ToolFormat {
        match TemplateTraits::of(source).describes_tools {
            true => ToolFormat::of_model(source, |token| tokenizer.id(token).is_some()),
            // The prompt asks for it.
            false => &tools::GENERIC,
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

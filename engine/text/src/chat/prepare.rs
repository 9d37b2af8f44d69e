//! From a request to a prompt.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::continuation::{AnswerStart, cut_at, mark_end};
use super::harmony::{self, HarmonyParser};
use super::history::{self, TemplateTraits};
use super::parser::ChatFormat;
use super::request::ChatRequest;
use super::templates::ChatTemplates;
use crate::chat_template::{ChatTemplate, ChatTemplateError, Message, RenderedPrompt};
use crate::grammar::{Constraint, Grammar, ToolCalls};
use crate::reasoning::{ReasoningFormat, ReasoningParser};
use crate::tokenizer::Tokenizer;
use crate::tools::{self, AnswerSyntax, Thought, ToolFormat};

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
    /// What the answer must match: it keeps calls within the tools' schemas and thoughts within their limit, and demands
    /// calls if the model must call. `None` if answers are free.
    pub constraint: Option<Constraint>,
    /// The constraint, compiled for the tokenizer by whoever prepares the prompt for a model.
    pub grammar: Option<Grammar>,
}

impl ChatRequest {
    /// Renders the conversation with a tokenizer's chat template, up to the beginning of the answer. The template is
    /// compiled for this conversation alone; [`Self::prepare_with`] compiles it once for many.
    ///
    /// # Errors
    ///
    /// If there is no chat template, or it refuses the conversation, fails or exceeds its limits.
    pub fn prepare(&self, tokenizer: &Tokenizer) -> Result<ChatPrompt, ChatTemplateError> {
        self.prepare_with(&ChatTemplates::new(tokenizer))
    }

    /// Renders the conversation as [`Self::prepare`] does, with templates that other conversations may have compiled.
    ///
    /// # Errors
    ///
    /// As [`Self::prepare`].
    pub fn prepare_with(&self, templates: &ChatTemplates) -> Result<ChatPrompt, ChatTemplateError> {
        let tokenizer = templates.tokenizer();
        let template = templates.get(self.tools().is_some())?;
        let mut prompt = self.render(template, tokenizer)?;
        let source = template.source();
        let is_harmony = harmony::is_shown_in(source);
        // A text that is continued has no thoughts, whatever it ends with.
        let has_thoughts = !is_harmony && self.start != AnswerStart::Continued;
        let thoughts = ReasoningFormat::of_template(source).filter(|_| has_thoughts);
        let wrapper = ReasoningFormat::of_answers(source);
        if let (Some(format), Some(false)) = (thoughts, self.thinking())
            && format.is_open_in(&prompt.text())
        {
            let closing = format.closing(&prompt.text());
            prompt.push_trusted(&closing);
        }
        let text = prompt.text();
        let control_token = |text: &str| {
            let id = tokenizer.id(text)?;
            tokenizer.is_control(id).then_some(id)
        };
        let (format, constraint) = match is_harmony {
            true => self.harmony(&control_token),
            false => {
                let calls = self.callable_tools().cloned();
                let calls = calls.map(|tools| {
                    let format = self.tool_format(source, tokenizer);
                    (format, tools, self.parallel_calls())
                });
                let format = ChatFormat {
                    reasoning: thoughts.map(|format| ReasoningParser::new(format, &text)),
                    wrapper: thoughts
                        .and(wrapper)
                        .map(|format| ReasoningParser::new(format, &text)),
                    tools: calls,
                    demands_call: self.demands_call(),
                    harmony: None,
                };
                let formats = [thoughts, wrapper];
                let rules = self.rules(&format, formats, &text, &control_token);
                (format, rules)
            }
        };
        let has_rules = constraint.is_some();
        let constraint = constraint.map(Constraint::ToolCalls);
        // Without rules, what the answer must match holds from its first byte on.
        let (format, constraint) = match self.whole_answer(has_rules) {
            Some(answer) => (ChatFormat::default(), Some(answer.clone())),
            None => (format, constraint),
        };
        Ok(ChatPrompt {
            tokens: prompt.encode(tokenizer)?,
            visible_tokens: format.markers().filter_map(control_token).collect(),
            text,
            format,
            constraint,
            grammar: None,
        })
    }

    /// Returns whether the model thinks; `None` leaves it to the template. Rules of Lark cannot stand behind a thought,
    /// and a regular expression may match the beginning of one.
    fn thinking(&self) -> Option<bool> {
        match self.text_constraint() {
            Some(Constraint::Regex(_) | Constraint::Lark(_)) => Some(false),
            _ => self.thinking,
        }
    }

    /// Returns what an answer that is no call must match.
    fn text_constraint(&self) -> Option<&Constraint> {
        self.answer.as_ref().filter(|_| !self.demands_call())
    }

    /// Returns what the whole answer must match, if the grammar of answers does not say it.
    fn whole_answer(&self, has_rules: bool) -> Option<&Constraint> {
        let answer = self.text_constraint()?;
        (!has_rules || answer.rule().is_none()).then_some(answer)
    }

    /// Returns the format of answers on channels and their grammar.
    fn harmony(
        &self,
        control_token: &dyn Fn(&str) -> Option<u32>,
    ) -> (ChatFormat, Option<ToolCalls>) {
        let tools = self.callable_tools();
        let parser = HarmonyParser::new(tools.cloned().unwrap_or_default(), self.parallel_calls());
        let is_continued = self.start == AnswerStart::Continued;
        let answer = self.text_constraint().and_then(Constraint::rule);
        let syntax = harmony::Syntax {
            tools,
            choice: self.tool_choice(),
            thinks: self.thinking != Some(false),
            limit: self.thinking_limit,
            answer: answer.as_deref(),
            control_token,
        };
        let rules = match is_continued {
            // The message goes on.
            true => None,
            false => harmony::grammar(&syntax),
        };
        let parser = match is_continued {
            true => parser.within_content(),
            false => parser,
        };
        let format = ChatFormat {
            harmony: Some(parser),
            ..ChatFormat::default()
        };
        (format, rules)
    }

    /// Returns the grammar of answers, if they must follow one.
    fn rules(
        &self,
        format: &ChatFormat,
        [thoughts, wrapper]: [Option<&'static ReasoningFormat>; 2],
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
                let answer = self.text_constraint().and_then(Constraint::rule);
                let syntax = AnswerSyntax {
                    choice: self.tool_choice(),
                    parallel: *parallel,
                    thought,
                    answer: answer.as_deref(),
                    wrapper,
                    control_token,
                };
                Some(format.grammar(tools, &syntax))
            }
            None => match (thought?, self.text_constraint()) {
                (thought, None) => {
                    let limit = thought.limit;
                    limit.map(|_| tools::thought_grammar(thought, wrapper, control_token))
                }
                (_, Some(_)) if self.thinking() == Some(false) => None,
                (thought, Some(answer)) => {
                    let answer = answer.rule()?;
                    let grammar = tools::answer_grammar(thought, &answer, wrapper, control_token);
                    Some(grammar)
                }
            },
        }
    }

    /// Returns the format of calls.
    fn tool_format(&self, source: &str, tokenizer: &Tokenizer) -> &'static ToolFormat {
        let traits = TemplateTraits::of(source);
        match traits.describes_tools {
            true => ToolFormat::of_model(source, |token| tokenizer.id(token).is_some()),
            false => traits.described_format,
        }
    }

    fn render(
        &self,
        template: &ChatTemplate,
        tokenizer: &Tokenizer,
    ) -> Result<RenderedPrompt, ChatTemplateError> {
        let traits = TemplateTraits::of(template.source());
        let mut messages = self.messages.clone();
        let mark = match self.start {
            AnswerStart::Continued => Some(mark_end(&mut messages)?),
            _ => None,
        };
        let variables = self.template_variables();
        let is_prompted = self.start == AnswerStart::Prompted;
        let render = |messages: &[Message]| -> Result<RenderedPrompt, ChatTemplateError> {
            let policy = self.control_tokens;
            let rendered =
                template.render_prompt(tokenizer, messages, is_prompted, &variables, policy);
            let mut rendered = rendered?;
            if let Some(mark) = mark {
                cut_at(&mut rendered, mark)?;
            }
            Ok(rendered)
        };
        let render_adapted = |traits: TemplateTraits| {
            let mut messages = history::messages(&messages, self.tools(), traits);
            let mut rendered = render(&messages);
            for change in history::CHANGES {
                if matches!(rendered, Err(ChatTemplateError::Refused { .. }))
                    && change(&mut messages)
                {
                    rendered = render(&messages);
                }
            }
            rendered
        };
        match render_adapted(traits) {
            // Some templates join arguments to text.
            Err(ChatTemplateError::Failed { .. }) if history::have_calls(&messages) => {
                render_adapted(traits.with_joined_arguments())
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
        if let Some(thinking) = self.thinking() {
            for name in ["enable_thinking", "thinking"] {
                variables.entry(name).or_insert(thinking.into());
            }
        }
        variables
    }
}

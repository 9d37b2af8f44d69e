//! Splits the text of an answer as it arrives.

use super::event::ChatEvent;
use super::harmony::{HarmonyParser, MARKERS};
use crate::reasoning::{Part, ReasoningParser};
use crate::tools::{ToolFormat, ToolParser, Tools};

/// How thoughts and calls are found in the answers to a prompt. By default, there are none.
#[derive(Debug, Clone, Default)]
pub struct ChatFormat {
    pub(super) reasoning: Option<ReasoningParser>,
    /// Finds the markers around an answer behind a thought, as it finds those around a thought: without a thought, they
    /// are text that was asked for. Where they are control tokens, answers have no text of them.
    pub(super) wrapper: Option<ReasoningParser>,
    /// The format of calls, the tools, and whether several calls are allowed.
    pub(super) tools: Option<(&'static ToolFormat, Tools, bool)>,
    /// Whether a call is demanded, so that an answer has no text.
    pub(super) demands_call: bool,
    /// Parses all of an answer in the format of gpt-oss.
    pub(super) harmony: Option<HarmonyParser>,
}

impl ChatFormat {
    /// Returns the texts that mark the parts of answers.
    pub(super) fn markers(&self) -> impl Iterator<Item = &'static str> {
        let thoughts = self.reasoning.iter().flat_map(ReasoningParser::markers);
        let calls = self.tools.iter().flat_map(|(format, ..)| format.markers());
        let harmony = self.harmony.iter().flat_map(|_| MARKERS);
        thoughts.chain(calls).chain(harmony)
    }

    /// Returns a parser for one answer.
    pub fn parser(&self) -> ChatParser {
        let tools = self.tools.clone();
        ChatParser {
            reasoning: self.reasoning.clone(),
            wrapper: self.wrapper.clone(),
            tools: tools.map(|(format, tools, parallel)| {
                ToolParser::new(format, tools, parallel).demanding_call(self.demands_call)
            }),
            harmony: self.harmony.clone(),
        }
    }
}

/// Splits the text of an answer into thoughts, content and calls.
#[derive(Debug)]
pub struct ChatParser {
    reasoning: Option<ReasoningParser>,
    wrapper: Option<ReasoningParser>,
    tools: Option<ToolParser>,
    harmony: Option<HarmonyParser>,
}

impl ChatParser {
    /// Returns whether the text so far ends within a thought.
    pub fn is_thinking(&self) -> bool {
        match (&self.harmony, &self.reasoning) {
            (Some(harmony), _) => harmony.is_thinking(),
            (None, Some(reasoning)) => reasoning.is_thinking(),
            (None, None) => false,
        }
    }

    /// Takes the next piece of the text and returns what is clear by now.
    pub fn push(&mut self, text: &str) -> Vec<ChatEvent> {
        if let Some(harmony) = &mut self.harmony {
            return harmony.push(text);
        }
        let parts = match &mut self.reasoning {
            Some(reasoning) => reasoning.push(text),
            None => vec![Part::Content(text.into())],
        };
        self.parts(parts)
    }

    /// Ends the text and returns the rest.
    pub fn finish(&mut self) -> Vec<ChatEvent> {
        if let Some(harmony) = &mut self.harmony {
            return harmony.finish();
        }
        let parts = self.reasoning.as_mut().map(ReasoningParser::finish);
        let mut events = self.parts(parts.unwrap_or_default());
        let rest = self.wrapper.as_mut().map(ReasoningParser::finish);
        self.answer(rest.unwrap_or_default(), &mut events);
        let rest = self.tools.as_mut().map(ToolParser::finish);
        events.extend(rest.unwrap_or_default().into_iter().map(ChatEvent::from));
        events
    }

    fn parts(&mut self, parts: Vec<Part>) -> Vec<ChatEvent> {
        let mut events = Vec::new();
        let reasoning = self.reasoning.as_ref();
        let has_thought = reasoning.is_some_and(ReasoningParser::has_thought);
        for part in parts {
            let text = match part {
                Part::Content(text) => text,
                Part::Reasoning(text) => {
                    events.push(ChatEvent::Reasoning(text));
                    continue;
                }
            };
            let parts = match &mut self.wrapper {
                Some(wrapper) if has_thought => wrapper.push(&text),
                _ => vec![Part::Content(text)],
            };
            self.answer(parts, &mut events);
        }
        events
    }

    /// Takes the text of the answer, within its markers and behind them.
    fn answer(&mut self, parts: Vec<Part>, events: &mut Vec<ChatEvent>) {
        for Part::Reasoning(text) | Part::Content(text) in parts {
            match &mut self.tools {
                Some(tools) => events.extend(tools.push(&text).into_iter().map(ChatEvent::from)),
                None => events.push(ChatEvent::Content(text)),
            }
        }
    }
}

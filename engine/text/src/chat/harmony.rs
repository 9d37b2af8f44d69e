//! Harmony, the format of gpt-oss: an answer is a sequence of messages on channels, as in
//! `<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…`.

use super::event::ChatEvent;
use crate::grammar::{ThoughtLimit, ToolCalls};
use crate::tools::{Tool, ToolCallDelta, ToolChoice, Tools, json_call, rules_of_calls};

const CHANNEL: &str = "<|channel|>";
const MESSAGE: &str = "<|message|>";
const CONSTRAIN: &str = "<|constrain|>";
const START: &str = "<|start|>";
const END: &str = "<|end|>";
const CALL: &str = "<|call|>";
const RETURN: &str = "<|return|>";

/// The texts of the format's control tokens.
pub(super) const MARKERS: [&str; 7] = [CHANNEL, MESSAGE, CONSTRAIN, START, END, CALL, RETURN];

/// The channel of thoughts.
const ANALYSIS: &str = "analysis";

/// Returns whether a chat template writes the format.
pub(super) fn is_shown_in(template: &str) -> bool {
    template.contains(CHANNEL) && template.contains(MESSAGE)
}

/// What the grammar of an answer depends on.
pub(super) struct Syntax<'a> {
    /// The tools that may be called.
    pub tools: Option<&'a Tools>,
    /// Whether and which of them must be called.
    pub choice: &'a ToolChoice,
    /// Whether the model may think.
    pub thinks: bool,
    /// The most tokens of its thoughts.
    pub limit: Option<usize>,
    /// The rule of the text to the user; any text without one.
    pub answer: Option<&'a str>,
    /// Returns the id of a text that is a control token.
    pub control_token: &'a dyn Fn(&str) -> Option<u32>,
}

/// Returns the grammar of answers in llguidance's dialect of Lark; `None` if they are free, or the markers are no
/// tokens.
pub(super) fn grammar(syntax: &Syntax<'_>) -> Option<ToolCalls> {
    let (choice, control_token) = (syntax.choice, syntax.control_token);
    let demands_call = syntax.tools.is_some() && *choice != ToolChoice::Auto;
    let mut tools = syntax.tools.into_iter().flat_map(Tools::iter);
    let has_rules = demands_call || syntax.answer.is_some() || tools.any(Tool::is_strict);
    if !has_rules && syntax.limit.is_none() && syntax.thinks {
        return None;
    }
    let token = |marker: &str| Some(format!("<[{}]>", control_token(marker)?));
    let (channel, message, constrain) = (token(CHANNEL)?, token(MESSAGE)?, token(CONSTRAIN)?);
    let (start, end) = (token(START)?, token(END)?);
    let chosen = |tool: &&Tool| match choice {
        ToolChoice::Function(name) => tool.name() == name,
        _ => true,
    };
    let tools = syntax.tools.into_iter().flat_map(Tools::iter);
    let calls = rules_of_calls(tools.filter(chosen), |tool, rule, limit| {
        let name = tool.name();
        let head =
            format!("{channel} \"commentary to=functions.{name} \" {constrain} \"json\" {message}");
        json_call(tool, rule, limit, (&head, ""))
    });
    let next = format!("{end} {start} \"assistant\"");
    let thinks = syntax.thinks && syntax.limit != Some(0);
    let thought = match thinks {
        false => String::new(),
        true => format!("({channel} \"{ANALYSIS}\" {message} ANY_TEXT {next})?"),
    };
    let thought_limit = syntax.limit.filter(|_| thinks).map(|tokens| ThoughtLimit {
        tokens,
        open: vec![CHANNEL, ANALYSIS, MESSAGE],
        close: END,
    });
    let answer = syntax.answer.unwrap_or("ANY_TEXT");
    let last = format!("{channel} \"final\" {message} {answer}");
    // What the model says before it calls.
    let preamble = format!("({channel} \"commentary\" {message} ANY_TEXT {next})?");
    let rest = match (demands_call, calls.is_empty()) {
        (true, _) => "call".to_owned(),
        (false, true) => last,
        (false, false) => format!("({preamble} call | {last})"),
    };
    let mut rules = format!("start: {thought} {rest}\n");
    if !calls.is_empty() {
        let items: Vec<&str> = calls.iter().map(|call| call.rule.as_str()).collect();
        rules += &format!("call: {}\n", items.join(" | "));
    }
    Some(ToolCalls {
        rules,
        calls,
        thought_limit,
    })
}

/// Splits a text into the thoughts of the channel `analysis`, calls of functions, and content. Text
/// before the first message is content if there is no message, unless it is the header of one that was cut off.
#[derive(Debug, Clone)]
pub(super) struct HarmonyParser {
    tools: Tools,
    parallel: bool,
    state: State,
    /// The header of the message, from the end of the one before.
    header: String,
    /// What may be a marker.
    held: String,
    calls: usize,
    has_message: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Header,
    Reasoning,
    Content,
    /// The arguments of a call that is passed on, or not.
    Call(bool),
}

impl HarmonyParser {
    pub fn new(tools: Tools, parallel: bool) -> HarmonyParser {
        HarmonyParser {
            tools,
            parallel,
            state: State::Header,
            header: String::new(),
            held: String::new(),
            calls: 0,
            has_message: false,
        }
    }

    /// Makes the text begin within a message to the user.
    pub fn within_content(mut self) -> HarmonyParser {
        self.state = State::Content;
        self.has_message = true;
        self
    }

    /// Returns whether the text so far ends within a thought.
    pub fn is_thinking(&self) -> bool {
        self.state == State::Reasoning
    }

    /// Takes the next piece of the text and returns what is clear by now.
    pub fn push(&mut self, text: &str) -> Vec<ChatEvent> {
        self.held.push_str(text);
        let mut events = Vec::new();
        loop {
            let found = MARKERS
                .iter()
                .filter_map(|marker| Some((self.held.find(marker)?, marker)));
            let Some((at, marker)) = found.min() else {
                break;
            };
            let rest = self.held.split_off(at + marker.len());
            let text = std::mem::replace(&mut self.held, rest);
            self.text(&text[..at], &mut events);
            self.marker(marker, &mut events);
        }
        // A marker may have begun.
        let starts = self.held.rfind('<').filter(|&at| {
            let end = &self.held[at..];
            MARKERS.iter().any(|marker| marker.starts_with(end))
        });
        let rest = self.held.split_off(starts.unwrap_or(self.held.len()));
        let text = std::mem::replace(&mut self.held, rest);
        self.text(&text, &mut events);
        events
    }

    /// Ends the text and returns the rest.
    pub fn finish(&mut self) -> Vec<ChatEvent> {
        let mut events = Vec::new();
        let held = std::mem::take(&mut self.held);
        self.text(&held, &mut events);
        let header = std::mem::take(&mut self.header);
        let is_cut_off = header.contains("to=functions.")
            || MARKERS.iter().any(|marker| header.contains(marker));
        if !self.has_message && !header.is_empty() && !is_cut_off {
            events.push(ChatEvent::Content(header));
        }
        events
    }

    fn text(&mut self, text: &str, events: &mut Vec<ChatEvent>) {
        if text.is_empty() {
            return;
        }
        match self.state {
            State::Header => self.header.push_str(text),
            State::Reasoning => events.push(ChatEvent::Reasoning(text.into())),
            State::Content => events.push(ChatEvent::Content(text.into())),
            State::Call(false) => {}
            State::Call(true) => events.push(ChatEvent::Call(ToolCallDelta {
                index: self.calls - 1,
                name: None,
                arguments: text.into(),
            })),
        }
    }

    fn marker(&mut self, marker: &str, events: &mut Vec<ChatEvent>) {
        match (marker, self.state) {
            (MESSAGE, State::Header) => self.begin(events),
            (MESSAGE, _) => self.text(marker, events),
            (END | CALL | RETURN, _) => {
                self.header.clear();
                self.state = State::Header;
            }
            (_, State::Header) => self.header.push_str(marker),
            _ => {
                marker.clone_into(&mut self.header);
                self.state = State::Header;
            }
        }
    }

    /// Begins the message of a header.
    fn begin(&mut self, events: &mut Vec<ChatEvent>) {
        let header = std::mem::take(&mut self.header);
        let is_end = |c: char| c.is_whitespace() || c == '<';
        let after = |mark: &str| {
            let (_, rest) = header.split_once(mark)?;
            rest.split(is_end).next()
        };
        let called = after("to=functions.").and_then(|name| self.tools.get(name));
        self.has_message = true;
        self.state = match (called, after(CHANNEL)) {
            (Some(tool), _) if self.parallel || self.calls == 0 => {
                events.push(ChatEvent::Call(ToolCallDelta {
                    index: self.calls,
                    name: Some(tool.name().into()),
                    arguments: String::new(),
                }));
                self.calls += 1;
                State::Call(true)
            }
            (Some(_), _) => State::Call(false),
            (None, Some(ANALYSIS)) => State::Reasoning,
            (None, _) => State::Content,
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::tools::{Tool, ToolCall};

    fn split(pieces: &[&str]) -> (String, String, Vec<ToolCall>) {
        let tools = Tools::new([Tool::new("f", Value::Null).unwrap()]).unwrap();
        let mut parser = HarmonyParser::new(tools, true);
        let mut events: Vec<ChatEvent> =
            pieces.iter().flat_map(|piece| parser.push(piece)).collect();
        events.extend(parser.finish());
        let (mut reasoning, mut content, mut calls) = (String::new(), String::new(), Vec::new());
        for event in events {
            match event {
                ChatEvent::Reasoning(text) => reasoning += &text,
                ChatEvent::Content(text) => content += &text,
                ChatEvent::Call(call) => call.append_to(&mut calls),
            }
        }
        (reasoning, content, calls)
    }

    #[test]
    fn messages_are_told_apart_by_their_channel() {
        let call = |arguments: &str| ToolCall {
            name: "f".into(),
            arguments: arguments.into(),
        };
        for (text, reasoning, content, calls) in [
            (
                "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes <|x.",
                "Hm.",
                "Yes <|x.",
                vec![],
            ),
            (
                "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>",
                "Hm.",
                "",
                vec![call("{\"a\": 1}")],
            ),
            (
                " to=functions.f<|channel|>commentary json<|message|>{}<|end|><|start|>assistant to=functions.f<|channel|>commentary<|message|>{}",
                "",
                "",
                vec![call("{}"), call("{}")],
            ),
            (
                "<|channel|>commentary to=functions.g<|message|>{}",
                "",
                "{}",
                vec![],
            ),
            ("No message <", "", "No message <", vec![]),
            // Headers that were cut off.
            ("<|channel|>comm", "", "", vec![]),
            (
                "<|channel|>commentary to=functions.f <|constrain|>",
                "",
                "",
                vec![],
            ),
            (" to=functions.f", "", "", vec![]),
        ] {
            let expected = (reasoning.to_owned(), content.to_owned(), calls);
            assert_eq!(split(&[text]), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            pieces in proptest::collection::vec(
                "(<\\|channel\\|>|<\\|message\\|>|<\\|end\\|>|<\\|start\\|>|analysis|final| to=functions.f|<|\\||a|é){0,5}",
                0..6,
            ),
        ) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(split(&pieces), split(&[&pieces.concat()]));
        }
    }
}

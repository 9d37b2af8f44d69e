//! Grammars of answers that are calls, in llguidance's dialect of Lark.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::call_rules::{call, rules_of_calls};
use super::format::{GENERIC, ToolFormat};
use super::json_calls::{ARGUMENTS, NAME};
use super::rules::Rules;
use super::tool::{ToolChoice, Tools};
use crate::grammar::{ThoughtLimit, ToolCalls};
use crate::reasoning::{ReasoningFormat, split_marker};

/// The terminal of any text.
pub(super) const ANY_TEXT: &str = "ANY_TEXT";

/// What else the grammar of an answer depends on.
pub struct AnswerSyntax<'a> {
    /// Whether and which tools must be called.
    pub choice: &'a ToolChoice,
    /// Whether several calls are allowed.
    pub parallel: bool,
    /// Whether the prompt ends in a thought, or the model may begin one, and the markers of thoughts.
    pub thought: Option<Thought>,
    /// The rule of an answer without calls, if it has one.
    pub answer: Option<&'a str>,
    /// The markers that an answer without calls may stand between.
    pub wrapper: Option<&'static ReasoningFormat>,
    /// Returns the id of a text that is a control token.
    pub control_token: &'a dyn Fn(&str) -> Option<u32>,
}

/// The thought before an answer.
#[derive(Debug, Clone, Copy)]
pub struct Thought {
    /// What begins a thought; `None` if the prompt has begun it.
    pub open: Option<&'static str>,
    /// What ends it.
    pub close: &'static str,
    /// Its most tokens, if they are limited.
    pub limit: Option<usize>,
}

impl Thought {
    fn token_limit(&self) -> Option<ThoughtLimit> {
        let open = self.open.map(split_marker);
        let open = open
            .into_iter()
            .flat_map(|(marker, header)| [marker, header]);
        Some(ThoughtLimit {
            tokens: self.limit?,
            open: open.filter(|part| !part.is_empty()).collect(),
            close: self.close,
        })
    }
}

/// Returns the grammar of any answer behind a thought, which may be limited. The answer may stand between the markers
/// of `wrapper`.
pub(crate) fn thought_grammar(
    thought: Thought,
    wrapper: Option<&'static ReasoningFormat>,
    control_token: &dyn Fn(&str) -> Option<u32>,
) -> ToolCalls {
    let mut rules = Rules::new(&GENERIC, control_token, "r");
    let start = rules.behind_thought(Some(thought), |rules, text| rules.wrapped(text, wrapper));
    without_calls(&start, &rules, thought)
}

/// Returns the grammar of an answer that follows a rule behind a thought. The thought may be missing unless the prompt
/// has begun it.
pub(crate) fn answer_grammar(
    thought: Thought,
    answer: &str,
    wrapper: Option<&'static ReasoningFormat>,
    control_token: &dyn Fn(&str) -> Option<u32>,
) -> ToolCalls {
    let mut rules = Rules::new(&GENERIC, control_token, "r");
    let before = rules.thought_before(Some(thought), Some(answer));
    let answer = rules.wrapped(answer, wrapper);
    without_calls(&format!("{before} {answer}"), &rules, thought)
}

fn without_calls(start: &str, rules: &Rules<'_>, thought: Thought) -> ToolCalls {
    ToolCalls {
        rules: format!("start: {start}\n{}", rules.text),
        calls: Vec::new(),
        thought_limit: thought.token_limit(),
    }
}

impl ToolFormat {
    /// Returns the grammar of answers that call the tools, or with [`ToolChoice::Auto`] are any other text:
    /// then only what follows the marker of a call is constrained, unless the text has a rule.
    pub fn grammar(&self, tools: &Tools, syntax: &AnswerSyntax<'_>) -> ToolCalls {
        let mut rules = Rules::new(self, syntax.control_token, "r");
        let chosen = tools.iter().filter(|tool| match syntax.choice {
            ToolChoice::Function(name) => tool.name() == name,
            _ => true,
        });
        let calls = rules_of_calls(chosen, |tool, rule, limit| {
            let has_answer = syntax.answer.is_some();
            call(self, tool, rule, limit, has_answer, syntax.control_token)
        });
        let items: Vec<&str> = calls.iter().map(|call| call.rule.as_str()).collect();
        let item = rules.add(&items.join(" | "));
        let [open, between, close] = self.around.map(|text| text.to_owned());
        let more = match syntax.parallel {
            true => format!("({} {item})*", rules.literal(&between)),
            false => String::new(),
        };
        let rest = |rules: &Rules<'_>, open: &str| {
            format!(
                "{} {item} {more} {}",
                rules.literal(open),
                rules.literal(&close)
            )
        };
        let marker = self.begins.iter().find(|marker| open.starts_with(**marker));
        let start = match (syntax.choice, syntax.answer, marker) {
            (ToolChoice::Auto, Some(answer), _) => {
                let thought = rules.thought_before(syntax.thought, Some(answer));
                let answer = rules.wrapped(answer, syntax.wrapper);
                format!("{thought} ({answer} | {})", rest(&rules, &open))
            }
            (ToolChoice::Auto, None, Some(marker)) => {
                let calls = rest(&rules, &open[marker.len()..]);
                let calls = rules.add(&calls);
                rules.behind_thought(syntax.thought, |rules, text| {
                    let head = rules.until(text, marker);
                    let text = rules.wrapped(text, syntax.wrapper);
                    format!("({text} | {head} {calls})")
                })
            }
            (ToolChoice::Auto, None, None) => {
                let thought = rules.thought(syntax.thought);
                let calls = rest(&rules, &open);
                let other = other_object();
                // The parser finds calls behind white space too.
                let text = "/\\s*([^\\s{](.|\\n)*)?/";
                format!("{thought} ({text} | /\\s*/ ({other} | {calls}))")
            }
            _ => {
                let thought = rules.thought_before(syntax.thought, None);
                format!("{thought} {}", rest(&rules, &open))
            }
        };
        ToolCalls {
            rules: format!("start: {start}\n{}", rules.text),
            calls,
            thought_limit: syntax.thought.and_then(|thought| thought.token_limit()),
        }
    }
}

impl Rules<'_> {
    /// Returns a text up to a marker, and the marker.
    pub(super) fn until(&mut self, text: &str, marker: &str) -> String {
        match (self.control_token)(marker) {
            Some(id) => format!("{text} <[{id}]>"),
            None => self.add_with("[lazy]", &format!("{text} {}", Value::from(marker))),
        }
    }

    /// Returns a text between the markers of an answer, or without them. Markers that are no control tokens are a part
    /// of the text.
    fn wrapped(&self, text: &str, wrapper: Option<&ReasoningFormat>) -> String {
        let marker = |text: &str| {
            let id = (self.control_token)(text);
            id.map(|id| format!("(<[{id}]>)?")).unwrap_or_default()
        };
        match wrapper {
            Some(format) => format!("{} {text} {}", marker(format.open), marker(format.close)),
            None => text.to_owned(),
        }
    }

    /// Returns the thought that precedes any text or calls.
    fn thought(&mut self, thought: Option<Thought>) -> String {
        match thought {
            None => String::new(),
            Some(thought) if thought.open.is_none() => self.required_thought(thought),
            Some(thought) => format!("({})?", self.required_thought(thought)),
        }
    }

    /// Returns the thought that precedes an answer of a rule, or calls only. White space before a thought that may be
    /// missing must not force one: it may precede JSON and calls alone too, to which it adds nothing, and is not
    /// allowed where the answer is another text.
    fn thought_before(&mut self, thought: Option<Thought>, answer: Option<&str>) -> String {
        let optional = thought.and_then(|thought| Some((thought, thought.open?)));
        let Some((thought, open)) = optional else {
            return self.thought(thought);
        };
        let space = match answer {
            Some(answer) if !answer.starts_with("%json") => "",
            _ => "/[ \\n]{0,4}/",
        };
        let (open, rest) = (self.thought_marker(open), self.rest_of_thought(thought));
        format!("{space} ({open} {rest})?")
    }

    /// Returns an answer behind a thought, or without one if there need be none. `answer` makes it of any text that it
    /// may be. Without a thought, that text does not begin like one: else what calls a tool within a thought, or a
    /// thought that is too long, would be such a text.
    fn behind_thought(
        &mut self,
        thought: Option<Thought>,
        answer: impl Fn(&mut Rules<'_>, &str) -> String,
    ) -> String {
        let behind = answer(self, ANY_TEXT);
        let Some(thought) = thought else {
            return behind;
        };
        let required = self.required_thought(thought);
        match thought.open {
            None => format!("{required} {behind}"),
            Some(open) if (self.control_token)(split_marker(open).0).is_some() => {
                format!("({required})? {behind}")
            }
            Some(open) => {
                let without = answer(self, &other_texts(&[open]));
                format!("{required} {behind} | {without}")
            }
        }
    }

    fn required_thought(&mut self, thought: Thought) -> String {
        let open = thought.open.map(|open| self.begin_thought(open));
        let rest = self.rest_of_thought(thought);
        format!("{} {rest}", open.unwrap_or_default())
    }

    /// Returns the beginning of a thought behind white space.
    fn begin_thought(&self, open: &str) -> String {
        match (self.control_token)(split_marker(open).0) {
            Some(_) => format!("/[ \\n]*/ {}", self.thought_marker(open)),
            // One terminal: of white space alone, other texts would be longer.
            None => format!("/[ \\n]*{}/", escaped(open)),
        }
    }

    /// Returns what begins a thought: a control token and the text behind it, or text.
    fn thought_marker(&self, open: &str) -> String {
        let (marker, header) = split_marker(open);
        match ((self.control_token)(marker), header) {
            (Some(id), "") => format!("<[{id}]>"),
            (Some(id), header) => format!("<[{id}]> {}", Value::from(header)),
            (None, _) => Value::from(open).to_string(),
        }
    }

    /// Returns a thought behind what begins it.
    fn rest_of_thought(&mut self, thought: Thought) -> String {
        let close = self.until(ANY_TEXT, thought.close);
        format!("{close} /[ \\n]*/")
    }
}

/// Returns a text that begins with a brace, but not as what the parser takes for a call without marker. The brace is a
/// terminal of its own, as in calls: a longer one would hide theirs.
fn other_object() -> String {
    let keys = NAME.iter().chain(&ARGUMENTS);
    let keys = keys.map(|key| format!("\"{key}\""));
    let kinds = ["\"type\": \"function\"", "\"type\":\"function\""];
    let starts: Vec<String> = keys.chain(kinds.map(String::from)).collect();
    let starts: Vec<&str> = starts.iter().map(String::as_str).collect();
    format!("\"{{\" {}", other_texts(&starts))
}

/// Returns the regular expression of a text.
fn escaped(text: &str) -> String {
    let codes = text.chars().map(|c| format!("\\x{{{:x}}}", u32::from(c)));
    codes.collect()
}

/// Returns the regular expression of all texts that begin with none of others behind white space. None of those begins
/// with another one.
fn other_texts(starts: &[&str]) -> String {
    // What may come before each character of the others, and those characters.
    let mut next: BTreeMap<&str, BTreeSet<char>> = BTreeMap::new();
    for start in starts {
        for (at, character) in start.char_indices() {
            next.entry(&start[..at]).or_default().insert(character);
        }
    }
    let others = next.into_iter().map(|(before, characters)| {
        let space = if before.is_empty() { "\\s" } else { "" };
        let characters = escaped(&String::from_iter(characters));
        format!("{}[^{space}{characters}]", escaped(before))
    });
    let others = others.collect::<Vec<String>>().join("|");
    format!("/\\s*(({others})(.|\\n)*)?/")
}

//! Grammars of answers that are calls, in llguidance's dialect of Lark.

use serde_json::Value;

use super::call_rules::{call, rules_of_calls};
use super::format::{GENERIC, ToolFormat};
use super::rules::Rules;
use super::tool::{ToolChoice, Tools};
use crate::grammar::ToolCalls;
use crate::reasoning::split_marker;

/// The most characters to which a thought can be limited: the parser of grammars has several states for each, and fails
/// where it has 250000, which are some 25000 characters.
const MAX_THOUGHT: usize = 1 << 14;

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
    /// Its most characters; more than 2^14 do not limit it.
    pub limit: Option<usize>,
}

impl Thought {
    /// Returns the most characters that can be counted, `None` if the thought is not limited.
    pub(crate) fn countable(&self) -> Option<usize> {
        countable(self.limit)
    }
}

/// Returns a limit on the characters of a thought if so many can be counted.
pub(crate) fn countable(limit: Option<usize>) -> Option<usize> {
    limit.filter(|limit| *limit <= MAX_THOUGHT)
}

/// Returns the grammar of any answer behind a thought of limited length.
pub fn thought_grammar(thought: Thought, control_token: &dyn Fn(&str) -> Option<u32>) -> ToolCalls {
    let mut rules = Rules::new(&GENERIC, control_token, "r");
    // Without a thought, the answer does not begin like one.
    let other = match thought.open {
        Some(open) if control_token(split_marker(open).0).is_none() => {
            let first = open.chars().next().unwrap_or('<');
            format!(" | /[^\\s\\x{{{:x}}}](.|\\n)*/", u32::from(first))
        }
        Some(_) => " | ANY_TEXT".to_owned(),
        None => String::new(),
    };
    let head = rules.required_thought(thought);
    ToolCalls {
        rules: format!("start: {head} ANY_TEXT{other}\n{}", rules.text),
        calls: Vec::new(),
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
            call(self, tool, rule, limit, syntax.control_token)
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
        let thought = rules.thought(syntax.thought);
        let start = match (syntax.choice, syntax.answer) {
            (ToolChoice::Auto, Some(answer)) => {
                format!("{thought} ({answer} | {})", rest(&rules, &open))
            }
            (ToolChoice::Auto, None) => {
                let marker = self.begins.iter().find(|marker| open.starts_with(**marker));
                match marker {
                    Some(marker) => {
                        let head = rules.until(marker, None);
                        let calls = rest(&rules, &open[marker.len()..]);
                        let thought = rules.any_thought(syntax.thought);
                        format!("{thought} (ANY_TEXT | {head} {calls})")
                    }
                    None => {
                        let calls = rest(&rules, &open);
                        format!("{thought} (/[^{{](.|\\n)*/ | {calls})?")
                    }
                }
            }
            _ => format!("{thought} {}", rest(&rules, &open)),
        };
        ToolCalls {
            rules: format!("start: {start}\n{}", rules.text),
            calls,
        }
    }
}

impl Rules<'_> {
    /// Returns any text up to a marker, of at most `limit` characters, and the marker.
    pub(super) fn until(&mut self, marker: &str, limit: Option<usize>) -> String {
        let text = match limit {
            Some(limit) => format!("/(.|\\n){{0,{limit}}}/"),
            None => "ANY_TEXT".to_owned(),
        };
        match (self.control_token)(marker) {
            Some(id) => format!("{text} <[{id}]>"),
            None => self.add_with("[lazy]", &format!("{text} {}", Value::from(marker))),
        }
    }

    /// Returns the thought that precedes calls.
    fn thought(&mut self, thought: Option<Thought>) -> String {
        match thought {
            None => String::new(),
            Some(thought) if thought.open.is_none() => self.required_thought(thought),
            Some(thought) => format!("({})?", self.required_thought(thought)),
        }
    }

    fn required_thought(&mut self, thought: Thought) -> String {
        let close = self.until(thought.close, thought.countable());
        let open = match thought.open {
            None => String::new(),
            Some(open) => format!("/[ \\n]*/ {}", self.begin_thought(open)),
        };
        format!("{open}{close} /[ \\n]*/")
    }

    /// Returns the beginning of a thought: a control token and the text behind it, or text.
    fn begin_thought(&self, open: &str) -> String {
        let (marker, header) = split_marker(open);
        let header = match header {
            "" => String::new(),
            header => format!("{} ", Value::from(header)),
        };
        match (self.control_token)(marker) {
            Some(id) => format!("<[{id}]> {header}"),
            None => format!("{} ", Value::from(open)),
        }
    }

    /// Returns the thought that precedes any text: nothing, where the text may contain it.
    fn any_thought(&mut self, thought: Option<Thought>) -> String {
        match thought {
            Some(
                thought @ Thought {
                    open: Some(open),
                    close,
                    ..
                },
            ) if thought.countable().is_none()
                && (self.control_token)(split_marker(open).0).is_none()
                && (self.control_token)(close).is_none() =>
            {
                String::new()
            }
            thought => self.thought(thought),
        }
    }
}

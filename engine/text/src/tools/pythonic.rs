//! Calls as Python writes them: `[name(city="Paris", days=3)]`, or one a line without brackets.

use super::calls::{Calls, Payload, Step};
use super::json_calls::JsonCalls;
use super::python_value;

/// The longest name of a tool or an argument in bytes.
const MAX_NAME: usize = 256;

/// A parser of calls in brackets, of calls up to an end, or of one call.
#[derive(Debug, Default)]
pub(super) struct PythonicCalls {
    /// What ends calls without brackets; `None` if there is only one.
    end: Option<&'static str>,
    expected: Expected,
    in_list: bool,
    /// The name, the value or the end that is being read.
    text: String,
    /// The name of the argument whose value is being read.
    key: String,
    /// The open brackets of the value.
    depth: usize,
    /// The quote of the open string of the value, and whether a backslash precedes.
    quote: Option<(char, bool)>,
    has_arguments: bool,
    /// Calls as JSON, which models write too.
    plain: Option<JsonCalls>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Expected {
    #[default]
    Start,
    Name,
    /// The name of an argument, or the end of the call.
    Key,
    Value,
    CommaOrEnd,
}

impl Payload for PythonicCalls {
    fn push(&mut self, character: char, calls: &mut Calls) -> Step {
        if let Some(plain) = &mut self.plain {
            return plain.push(character, calls);
        }
        let step = match self.expected {
            Expected::Start | Expected::Name => self.name(character, calls),
            Expected::Key => self.key(character, calls),
            Expected::Value => self.value(character, calls),
            Expected::CommaOrEnd => self.after_call(character),
        };
        // What was begun stays an object.
        if step == Step::Malformed && matches!(self.expected, Expected::Key | Expected::Value) {
            self.end_call(calls);
        }
        step
    }
}

impl PythonicCalls {
    /// Creates a parser; `end` ends calls without brackets, of which there is only one without it.
    pub fn new(end: Option<&'static str>) -> PythonicCalls {
        PythonicCalls {
            end,
            ..PythonicCalls::default()
        }
    }

    fn name(&mut self, character: char, calls: &mut Calls) -> Step {
        let at_start = self.text.is_empty();
        match character {
            '[' if self.expected == Expected::Start => {
                self.in_list = true;
                self.expected = Expected::Name;
            }
            '{' if at_start => {
                let mut plain = JsonCalls::default();
                if self.in_list {
                    plain.push('[', calls);
                }
                return self.plain.insert(plain).push(character, calls);
            }
            '(' if calls.tools.get(&self.text).is_some() => {
                let name = std::mem::take(&mut self.text);
                calls.begin(&name);
                self.has_arguments = false;
                self.expected = Expected::Key;
            }
            _ if character.is_whitespace() && at_start => {}
            _ if is_name(character) && self.text.len() < MAX_NAME => {
                self.expected = Expected::Name;
                self.text.push(character);
            }
            _ => return Step::Malformed,
        }
        Step::More
    }

    fn key(&mut self, character: char, calls: &mut Calls) -> Step {
        match character {
            ')' if self.text.is_empty() => return self.end_call(calls),
            '=' if !self.text.is_empty() => {
                self.key = std::mem::take(&mut self.text);
                self.expected = Expected::Value;
            }
            _ if character.is_whitespace() => {}
            _ if is_name(character) && self.text.len() < MAX_NAME => self.text.push(character),
            _ => return Step::Malformed,
        }
        Step::More
    }

    fn value(&mut self, character: char, calls: &mut Calls) -> Step {
        if let Some((quote, escaped)) = self.quote {
            self.quote = match (escaped, character) {
                (false, '\\') => Some((quote, true)),
                (false, end) if end == quote => None,
                _ => Some((quote, false)),
            };
            self.text.push(character);
            return Step::More;
        }
        match character {
            ',' | ')' if self.depth == 0 => {
                if !self.end_value(calls) {
                    return Step::Malformed;
                }
                self.expected = Expected::Key;
                if character == ')' {
                    return self.end_call(calls);
                }
                return Step::More;
            }
            '"' | '\'' => self.quote = Some((character, false)),
            '[' | '{' | '(' => self.depth += 1,
            ']' | '}' | ')' => match self.depth.checked_sub(1) {
                Some(depth) => self.depth = depth,
                None => return Step::Malformed,
            },
            _ => {}
        }
        self.text.push(character);
        Step::More
    }

    /// Passes an argument on; returns false if its value is none.
    fn end_value(&mut self, calls: &mut Calls) -> bool {
        let text = std::mem::take(&mut self.text);
        let Some(value) = python_value::parse(&text) else {
            return false;
        };
        let start = if self.has_arguments { ", " } else { "{" };
        self.has_arguments = true;
        let key = serde_json::Value::from(std::mem::take(&mut self.key));
        calls.arguments(&format!("{start}{key}: {value}"));
        true
    }

    fn end_call(&mut self, calls: &mut Calls) -> Step {
        calls.arguments(if self.has_arguments { "}" } else { "{}" });
        self.expected = Expected::CommaOrEnd;
        self.text.clear();
        match self.in_list || self.end.is_some() {
            true => Step::More,
            false => Step::Last,
        }
    }

    fn after_call(&mut self, character: char) -> Step {
        if self.text.is_empty() {
            match character {
                ']' if self.in_list => return Step::Last,
                ',' | ';' => {
                    self.expected = Expected::Name;
                    return Step::More;
                }
                _ if character.is_whitespace() => return Step::More,
                _ if self.in_list => return Step::Malformed,
                _ if is_name(character) => {
                    self.text.push(character);
                    self.expected = Expected::Name;
                    return Step::More;
                }
                _ => {}
            }
        }
        self.text.push(character);
        match self.end.unwrap_or_default().strip_prefix(&*self.text) {
            Some("") => Step::Last,
            Some(_) => Step::More,
            None => Step::Malformed,
        }
    }
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || "_-.".contains(character)
}

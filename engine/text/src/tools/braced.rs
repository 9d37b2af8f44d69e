//! Calls in braces whose keys have no quotes and whose texts stand between markers, as in Gemma 4's
//! `call:name{city:<|"|>Paris<|"|>,days:3}`, and with other markers in FunctionGemma's.

use serde_json::Value;

use super::calls::{Calls, Payload, Step};
use super::python_value;

/// The longest name of a tool or an argument in bytes.
const MAX_NAME: usize = 256;

/// The longest number or literal in bytes.
const MAX_SCALAR: usize = 512;

/// The deepest nesting of arguments.
const MAX_DEPTH: usize = 64;

/// The marks of a format.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Marks {
    /// What stands before the name.
    pub head: &'static str,
    /// What stands before and after a text.
    pub quote: &'static str,
}

/// Gemma 4's marks.
pub(super) const GEMMA: Marks = Marks {
    head: "call:",
    quote: "<|\"|>",
};

/// FunctionGemma's marks.
pub(super) const FUNCTION_GEMMA: Marks = Marks {
    head: "call:",
    quote: "<escape>",
};

/// A parser of one call, which becomes JSON an argument at a time.
#[derive(Debug)]
pub(super) struct BracedCall {
    marks: &'static Marks,
    expected: Expected,
    /// What is being read: a name, a key, a mark, a text or a number.
    text: String,
    /// The JSON of the present argument.
    json: String,
    /// The ends of the open objects and lists.
    open: Vec<char>,
    has_arguments: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Expected {
    Head,
    Name,
    /// A key, or the end of an object without members.
    KeyOrEnd,
    Key,
    Value,
    /// A value, or the end of an empty list.
    ValueOrEnd,
    /// The rest of the mark before a text.
    Quote,
    Text,
    Scalar,
    CommaOrEnd,
}

impl BracedCall {
    pub fn new(marks: &'static Marks) -> BracedCall {
        BracedCall {
            marks,
            expected: Expected::Head,
            text: String::new(),
            json: String::new(),
            open: Vec::new(),
            has_arguments: false,
        }
    }

    /// Takes a character of a mark; `next` follows it.
    fn mark(&mut self, character: char, mark: &str, next: Expected) -> Step {
        self.text.push(character);
        match mark.strip_prefix(&*self.text) {
            Some("") => self.expect(next),
            Some(_) => Step::More,
            None => Step::Malformed,
        }
    }

    fn expect(&mut self, next: Expected) -> Step {
        self.text.clear();
        self.expected = next;
        Step::More
    }

    fn name(&mut self, character: char, calls: &mut Calls) -> Step {
        if character == '{' && calls.tools.get(&self.text).is_some() {
            calls.begin(&self.text);
            self.open.push('}');
            return self.expect(Expected::KeyOrEnd);
        }
        self.text.push(character);
        let is_name = character.is_alphanumeric() || "_-.".contains(character);
        match is_name && self.text.len() <= MAX_NAME {
            true => Step::More,
            false => Step::Malformed,
        }
    }

    fn key(&mut self, character: char, calls: &mut Calls) -> Step {
        let is_start = self.text.is_empty();
        // Keys may stand between marks too.
        let quote = self.marks.quote;
        let quoted = self.text.strip_prefix(quote);
        let unquoted = quoted.map(|rest| rest.strip_suffix(quote));
        match character {
            '}' if is_start && self.expected == Expected::KeyOrEnd => return self.close(calls),
            _ if character.is_whitespace() && is_start => return Step::More,
            ':' if !is_start && unquoted != Some(None) => {}
            '{' | '}' | '[' | ']' | ',' | ':' if unquoted != Some(None) => return Step::Malformed,
            _ => {
                self.expected = Expected::Key;
                self.text.push(character);
                return match self.text.len() <= MAX_NAME {
                    true => Step::More,
                    false => Step::Malformed,
                };
            }
        }
        let key = unquoted.flatten().unwrap_or(self.text.trim_end());
        let key = Value::from(key);
        self.json.push_str(&format!("{key}: "));
        self.expect(Expected::Value)
    }

    fn value(&mut self, character: char, calls: &mut Calls) -> Step {
        match character {
            _ if character.is_whitespace() => return Step::More,
            ']' if self.expected == Expected::ValueOrEnd => return self.close(calls),
            '{' | '[' if self.open.len() < MAX_DEPTH => {
                self.json.push(character);
                let (end, next) = match character {
                    '{' => ('}', Expected::KeyOrEnd),
                    _ => (']', Expected::ValueOrEnd),
                };
                self.open.push(end);
                return self.expect(next);
            }
            _ if self.marks.quote.starts_with(character) => {
                self.expected = Expected::Quote;
                return self.mark(character, self.marks.quote, Expected::Text);
            }
            _ if is_scalar(character) => {}
            _ => return Step::Malformed,
        }
        self.expected = Expected::Scalar;
        self.text.push(character);
        Step::More
    }

    fn text(&mut self, character: char) -> Step {
        self.text.push(character);
        if let Some(text) = self.text.strip_suffix(self.marks.quote) {
            self.json.push_str(&Value::from(text).to_string());
            return self.expect(Expected::CommaOrEnd);
        }
        Step::More
    }

    fn scalar(&mut self, character: char, calls: &mut Calls) -> Step {
        if is_scalar(character) {
            self.text.push(character);
            return match self.text.len() <= MAX_SCALAR {
                true => Step::More,
                false => Step::Malformed,
            };
        }
        match python_value::parse(&self.text) {
            Some(value) => self.json.push_str(&value.to_string()),
            None => return Step::Malformed,
        }
        self.expect(Expected::CommaOrEnd);
        self.comma_or_end(character, calls)
    }

    fn comma_or_end(&mut self, character: char, calls: &mut Calls) -> Step {
        match (character, self.open.last()) {
            (',', Some('}')) => {
                match self.open.len() {
                    1 => self.pass_on(calls),
                    _ => self.json.push_str(", "),
                }
                self.expect(Expected::Key)
            }
            (',', _) => {
                self.json.push_str(", ");
                self.expect(Expected::Value)
            }
            (end, Some(open)) if end == *open => self.close(calls),
            _ if character.is_whitespace() => Step::More,
            _ => Step::Malformed,
        }
    }

    /// Closes the innermost object or list.
    fn close(&mut self, calls: &mut Calls) -> Step {
        match self.open.pop() {
            Some(end) if !self.open.is_empty() => {
                self.json.push(end);
                self.expect(Expected::CommaOrEnd)
            }
            _ => {
                self.pass_on(calls);
                self.end(calls);
                Step::Last
            }
        }
    }

    /// Passes the present argument on, if there is one.
    fn pass_on(&mut self, calls: &mut Calls) {
        if !self.json.is_empty() {
            let start = if self.has_arguments { ", " } else { "{" };
            calls.arguments(&format!("{start}{}", self.json));
            self.has_arguments = true;
            self.json.clear();
        }
    }

    fn end(&self, calls: &mut Calls) {
        calls.arguments(if self.has_arguments { "}" } else { "{}" });
    }
}

/// True for the characters of numbers and literals.
fn is_scalar(character: char) -> bool {
    character.is_ascii_alphanumeric() || "+-.".contains(character)
}

impl Payload for BracedCall {
    fn push(&mut self, character: char, calls: &mut Calls) -> Step {
        let step = match self.expected {
            Expected::Head if character.is_whitespace() && self.text.is_empty() => Step::More,
            Expected::Head => self.mark(character, self.marks.head, Expected::Name),
            Expected::Name => self.name(character, calls),
            Expected::KeyOrEnd | Expected::Key => self.key(character, calls),
            Expected::Value | Expected::ValueOrEnd => self.value(character, calls),
            Expected::Quote => self.mark(character, self.marks.quote, Expected::Text),
            Expected::Text => self.text(character),
            Expected::Scalar => self.scalar(character, calls),
            Expected::CommaOrEnd => self.comma_or_end(character, calls),
        };
        // What was begun stays an object.
        if step == Step::Malformed && !matches!(self.expected, Expected::Head | Expected::Name) {
            self.end(calls);
        }
        step
    }
}

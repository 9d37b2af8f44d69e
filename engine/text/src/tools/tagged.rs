//! Calls whose arguments stand in tags of their own, as in
//! `<function=name><parameter=city>Paris</parameter></function>`.

use serde_json::Value;

use super::calls::{Calls, Payload, Step};
use super::json_calls::JsonCalls;
use super::plain_text::PlainText;
use super::python_value;
use super::tool::Tool;

/// The longest name of a tool or an argument in bytes.
const MAX_NAME: usize = 256;

/// The tags of a format; empty ones are absent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tags {
    pub before_name: &'static str,
    pub after_name: &'static str,
    pub before_key: &'static str,
    pub after_key: &'static str,
    pub before_value: &'static str,
    pub after_value: &'static str,
    pub end: &'static str,
}

impl Tags {
    /// Returns the texts around the parameters of a call, around the keys and behind the values.
    pub(super) fn texts(&self, name: &str) -> [String; 5] {
        let line = "\n";
        // GLM's tags have no line breaks within.
        let (inner, after_name) = match self.after_name {
            "" => ("", line.to_owned()),
            end => (line, format!("{end}{line}")),
        };
        let between = match self.before_value {
            "" => "",
            _ => line,
        };
        // The end of GLM's calls is that of the format.
        let end = match self.before_name {
            "" => String::new(),
            _ => self.end.to_owned(),
        };
        [
            format!("{}{name}{after_name}", self.before_name),
            self.before_key.to_owned(),
            format!("{}{between}{}{inner}", self.after_key, self.before_value),
            format!("{inner}{}{line}", self.after_value),
            end,
        ]
    }
}

/// Qwen 3 Coder's and 3.5's tags.
pub(super) const QWEN: Tags = Tags {
    before_name: "<function=",
    after_name: ">",
    before_key: "<parameter=",
    after_key: ">",
    before_value: "",
    after_value: "</parameter>",
    end: "</function>",
};

/// GLM 4.5's tags.
pub(super) const GLM: Tags = Tags {
    before_name: "",
    after_name: "",
    before_key: "<arg_key>",
    after_key: "</arg_key>",
    before_value: "<arg_value>",
    after_value: "</arg_value>",
    end: "</tool_call>",
};

/// A parser of one call.
#[derive(Debug)]
pub(super) struct TaggedCall {
    tags: &'static Tags,
    expected: Expected,
    text: String,
    name: String,
    key: String,
    has_arguments: bool,
    /// Calls as JSON, which models write too.
    plain: Option<JsonCalls>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Expected {
    BeforeName,
    Name,
    AfterName,
    KeyOrEnd,
    Key,
    BeforeValue,
    Value,
}

/// How far a text is a tag.
#[derive(PartialEq)]
enum Match {
    Whole,
    Part,
    No,
}

fn matches(text: &str, tag: &str) -> Match {
    match tag.strip_prefix(text) {
        Some("") => Match::Whole,
        Some(_) => Match::Part,
        None => Match::No,
    }
}

impl TaggedCall {
    /// Creates a parser of what stands behind a marker, which may be the tag before the name.
    pub fn new(tags: &'static Tags, marker: &str) -> TaggedCall {
        TaggedCall {
            tags,
            expected: match tags.before_name {
                "" => Expected::Name,
                tag if tag == marker => Expected::Name,
                _ => Expected::BeforeName,
            },
            text: String::new(),
            name: String::new(),
            key: String::new(),
            has_arguments: false,
            plain: None,
        }
    }

    /// Takes a character of a tag, which white space may precede.
    fn tag(&mut self, character: char, tag: &str, next: Expected) -> Step {
        if character.is_whitespace() && self.text.is_empty() {
            return Step::More;
        }
        self.text.push(character);
        match matches(&self.text, tag) {
            Match::Whole => self.expect(next),
            Match::Part => Step::More,
            Match::No => Step::Malformed,
        }
    }

    fn expect(&mut self, next: Expected) -> Step {
        self.text.clear();
        self.expected = next;
        Step::More
    }

    fn name(&mut self, character: char, calls: &mut Calls) -> Step {
        if character.is_whitespace() && self.text.is_empty() {
            return Step::More;
        }
        if character.is_alphanumeric() || "_-.".contains(character) {
            self.text.push(character);
            return match self.text.len() <= MAX_NAME {
                true => Step::More,
                false => Step::Malformed,
            };
        }
        if calls.tools.get(&self.text).is_none() {
            return Step::Malformed;
        }
        self.name = std::mem::take(&mut self.text);
        self.expected = match self.tags.after_name {
            "" => Expected::KeyOrEnd,
            _ => Expected::AfterName,
        };
        if self.expected == Expected::KeyOrEnd {
            calls.begin(&self.name);
        }
        self.push(character, calls)
    }

    fn key_or_end(&mut self, character: char, calls: &mut Calls) -> Step {
        if character.is_whitespace() && self.text.is_empty() {
            return Step::More;
        }
        self.text.push(character);
        let tags = self.tags;
        if matches(&self.text, tags.end) == Match::Whole {
            self.close(calls);
            return Step::Last;
        }
        match matches(&self.text, tags.before_key) {
            Match::Whole => self.expect(Expected::Key),
            Match::Part => Step::More,
            Match::No if matches(&self.text, tags.end) == Match::Part => Step::More,
            Match::No => Step::Malformed,
        }
    }

    fn key(&mut self, character: char) -> Step {
        self.text.push(character);
        if let Some(key) = self.text.strip_suffix(self.tags.after_key) {
            self.key = key.trim().to_owned();
            return self.expect(match self.tags.before_value {
                "" => Expected::Value,
                _ => Expected::BeforeValue,
            });
        }
        match self.text.len() <= MAX_NAME {
            true => Step::More,
            false => Step::Malformed,
        }
    }

    fn value(&mut self, character: char, calls: &mut Calls) -> Step {
        self.text.push(character);
        let Some(value) = self.text.strip_suffix(self.tags.after_value) else {
            return Step::More;
        };
        // The lines of the tags are no part of the value.
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        let tool = calls.tools.get(&self.name);
        let schema = tool.map_or(&Value::Null, Tool::parameters);
        let value = typed(value, schema, &schema["properties"][&self.key]);
        let start = if self.has_arguments { ", " } else { "{" };
        self.has_arguments = true;
        let key = Value::from(std::mem::take(&mut self.key));
        calls.arguments(&format!("{start}{key}: {value}"));
        self.expect(Expected::KeyOrEnd)
    }

    fn close(&self, calls: &mut Calls) {
        calls.arguments(if self.has_arguments { "}" } else { "{}" });
    }
}

/// Returns what a text is as a value of a schema, whose references lead to definitions of `root`: text, unless the
/// schema has another type.
fn typed(text: &str, root: &Value, schema: &Value) -> Value {
    match PlainText::of(root, schema) {
        Some(plain) if plain.has_null && text == "null" => Value::Null,
        Some(_) => text.into(),
        None => python_value::parse(text).unwrap_or_else(|| text.into()),
    }
}

impl Payload for TaggedCall {
    fn push(&mut self, character: char, calls: &mut Calls) -> Step {
        if let Some(plain) = &mut self.plain {
            return plain.push(character, calls);
        }
        let is_first = self.text.is_empty() && self.name.is_empty();
        if is_first && character == '{' {
            return self
                .plain
                .insert(JsonCalls::default())
                .push(character, calls);
        }
        let tags = self.tags;
        let has_begun = matches!(
            self.expected,
            Expected::KeyOrEnd | Expected::Key | Expected::BeforeValue | Expected::Value
        );
        let step = match self.expected {
            Expected::BeforeName => self.tag(character, tags.before_name, Expected::Name),
            Expected::Name => self.name(character, calls),
            Expected::AfterName => {
                let step = self.tag(character, tags.after_name, Expected::KeyOrEnd);
                if self.expected == Expected::KeyOrEnd {
                    calls.begin(&self.name);
                }
                step
            }
            Expected::KeyOrEnd => self.key_or_end(character, calls),
            Expected::Key => self.key(character),
            Expected::BeforeValue => self.tag(character, tags.before_value, Expected::Value),
            Expected::Value => self.value(character, calls),
        };
        // What was begun stays an object.
        if step == Step::Malformed && has_begun {
            self.close(calls);
        }
        step
    }
}

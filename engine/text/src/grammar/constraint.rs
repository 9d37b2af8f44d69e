//! What a text must match.

use serde_json::Value;

use super::choices::choice_pattern;
use super::error::MAX_TEXT;
use super::tool_calls::ToolCalls;

/// What a generated text must match. Sizes are limited, because constraints come from outside: see
/// [`GrammarError::TooLarge`](super::GrammarError::TooLarge).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Constraint {
    /// A JSON value that a JSON Schema accepts; see [`json_schema`](super::json_schema) for the supported keywords.
    JsonSchema(Value),
    /// Any JSON object.
    JsonObject,
    /// A match of a regular expression, from the text's beginning to its end. The syntax is that of Rust's crate
    /// `regex`, without `\b` and other looks around.
    Regex(String),
    /// A sentence of a grammar in `llguidance`'s dialect of Lark: it begins with the rule `start`; names of
    /// terminals are capitals; `%json {…}` is a JSON Schema, to which the rules of [`Self::JsonSchema`] apply;
    /// `<|name|>` is a control token.
    Lark(String),
    /// An answer that may call tools. Arguments follow the tools' schemas; those of a tool whose schema cannot be
    /// enforced are any object, and the log says so, unless the tool is strict: that is an error.
    ToolCalls(ToolCalls),
    /// One of these texts.
    Choices(Vec<String>),
}

impl Constraint {
    /// Returns the constraint as a part of a rule in `llguidance`'s dialect of Lark; `None` if it cannot be
    /// one, is invalid or too long.
    pub(crate) fn rule(&self) -> Option<String> {
        match self {
            Constraint::JsonSchema(Value::Bool(true)) => Some("%json {}".into()),
            Constraint::JsonSchema(Value::Bool(false)) => None,
            Constraint::JsonSchema(schema) => Some(format!("%json {schema}")),
            Constraint::JsonObject => Some("%json {\"type\": \"object\"}".into()),
            // Two slashes would begin a comment.
            Constraint::Regex(pattern) if pattern.is_empty() || pattern.len() > MAX_TEXT => None,
            Constraint::Regex(pattern) => Some(format!("/{}/", escaped(pattern)?)),
            Constraint::Choices(choices) => choice_pattern(choices).ok(),
            Constraint::Lark(_) | Constraint::ToolCalls(_) => None,
        }
    }
}

/// Returns a regular expression without slashes and line breaks, which end one in a grammar; `None` if it has an
/// escape of nothing or of a line break.
fn escaped(pattern: &str) -> Option<String> {
    let mut out = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '/' => out.push_str("\\x2f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\\' => match characters.next()? {
                '/' => out.push_str("\\x2f"),
                '\n' | '\r' => return None,
                next => out.extend([character, next]),
            },
            other => out.push(other),
        }
    }
    Some(out)
}

impl From<Value> for Constraint {
    /// Makes a constraint of a JSON Schema.
    fn from(schema: Value) -> Constraint {
        Constraint::JsonSchema(schema)
    }
}

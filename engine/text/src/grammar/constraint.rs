//! What a text must match.

use serde_json::Value;

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
    /// A grammar like that of [`Self::Lark`], whose JSON has a space after colons and commas and no other white
    /// space, as models write the arguments of calls.
    ToolCalls(String),
    /// One of these texts.
    Choices(Vec<String>),
}

impl From<Value> for Constraint {
    /// Makes a constraint of a JSON Schema.
    fn from(schema: Value) -> Constraint {
        Constraint::JsonSchema(schema)
    }
}

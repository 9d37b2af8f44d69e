//! A schema, and what its keywords may be.

use serde_json::{Map, Value};

use crate::grammar::error::GrammarError;

/// The types of JSON Schema.
const TYPES: [&str; 7] = [
    "null", "boolean", "number", "integer", "string", "array", "object",
];

/// Keywords that apply other schemas to the same value.
const IN_PLACE: [&str; 9] = [
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "$ref",
    "$dynamicRef",
];

/// A schema that is being rewritten.
pub(super) struct Scope<'s> {
    pub schema: &'s Map<String, Value>,
    /// Its JSON pointer.
    pub place: &'s str,
    /// How many schemas it lies in, references included.
    pub depth: usize,
}

impl Scope<'_> {
    /// Makes the error of a keyword of the schema.
    pub fn refuse(&self, keyword: &str, reason: impl Into<String>) -> GrammarError {
        GrammarError::refused(keyword, self.place, reason)
    }

    /// Reads a keyword whose value is a whole number of at most `max`.
    pub fn count(&self, keyword: &str, max: u64) -> Result<Option<u64>, GrammarError> {
        let Some(value) = self.schema.get(keyword) else {
            return Ok(None);
        };
        let whole = value
            .as_f64()
            .filter(|number| number.fract() == 0.0 && *number >= 0.0);
        match whole {
            Some(number) if number <= max as f64 => Ok(Some(number as u64)),
            Some(_) => Err(self.refuse(
                keyword,
                format!("is {value}, but at most {max} is supported"),
            )),
            None => Err(self.refuse(
                keyword,
                format!("is {value}, but must be a whole number of at least 0"),
            )),
        }
    }

    /// Returns whether the schema's `type` excludes all of some types.
    pub fn excludes(&self, types: &[&str]) -> bool {
        match self.schema.get("type") {
            Some(Value::String(name)) => !types.contains(&name.as_str()),
            Some(Value::Array(names)) => {
                let mut names = names.iter().filter_map(Value::as_str);
                !names.any(|name| types.contains(&name))
            }
            _ => false,
        }
    }

    /// Returns whether the schema applies others to the same value.
    pub fn applies_others(&self) -> bool {
        IN_PLACE
            .iter()
            .any(|keyword| self.schema.contains_key(*keyword))
            || self.schema.contains_key("dependentSchemas")
    }
}

/// Checks the value of `type`.
pub(super) fn check_type(scope: &Scope<'_>, value: &Value) -> Result<(), GrammarError> {
    let is_type = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
    let is_valid = match value {
        Value::Array(names) => !names.is_empty() && names.iter().all(is_type),
        name => is_type(name),
    };
    match is_valid {
        true => Ok(()),
        false => Err(scope.refuse(
            "type",
            format!(
                "is {value}, but must be one or several of {}",
                TYPES.join(", ")
            ),
        )),
    }
}

/// Returns the name of a value's kind.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a Boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

//! Parameters of OpenAI's interface that this version does not support. A value that asks for nothing is accepted,
//! because many clients send it; any other one is refused, so that no client relies on an effect that is missing.

use serde_json::Value;

use super::{error::ApiError, fields::Fields};

/// A parameter and the test of whether a value asks for nothing.
type Rule = (&'static str, fn(&Value) -> bool);

/// The rules of all endpoints that generate.
const RULES: &[Rule] = &[
    ("audio", nothing),
    ("function_call", |value| {
        matches!(value.as_str(), Some("none" | "auto"))
    }),
    ("functions", nothing),
    ("modalities", |value| *value == serde_json::json!(["text"])),
    ("prediction", nothing),
    ("suffix", nothing),
    ("web_search_options", |_| false),
    // Of other servers, whose clients send them in `extra_body`.
    ("grammar", nothing),
    ("allowed_token_ids", nothing),
    ("bad_words", nothing),
    ("include_stop_str_in_output", nothing),
    ("min_tokens", nothing),
    ("prompt_embeds", nothing),
    ("prompt_logprobs", |_| false),
    ("truncate_prompt_tokens", |_| false),
    ("use_beam_search", nothing),
];

/// Returns whether a value is empty, zero or false.
fn nothing(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Refuses parameters that are not supported.
///
/// # Errors
///
/// The first such parameter.
pub fn check(fields: &Fields) -> Result<(), ApiError> {
    for (name, asks_for_nothing) in RULES {
        if let Some(value) = fields.get::<Value>(name)?
            && !asks_for_nothing(&value)
        {
            return Err(ApiError::unsupported(*name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_refused_unless_they_ask_for_nothing() {
        for (body, refused) in [
            (
                r#"{"functions": [], "function_call": "auto", "unknown": 1}"#,
                None,
            ),
            (r#"{"grammar": "", "functions": null}"#, None),
            (r#"{"functions": [{"name": "f"}]}"#, Some("functions")),
            (r#"{"function_call": {"name": "f"}}"#, Some("function_call")),
            (r#"{"grammar": "root ::= x"}"#, Some("grammar")),
            (r#"{"min_tokens": 0, "use_beam_search": false}"#, None),
            (r#"{"min_tokens": 5}"#, Some("min_tokens")),
            (r#"{"prompt_logprobs": 0}"#, Some("prompt_logprobs")),
        ] {
            let result = check(&Fields::parse(body.as_bytes()).unwrap());
            let found = result
                .err()
                .map(|error| error.body()["error"]["param"].clone());
            assert_eq!(found, refused.map(Value::from), "{body}");
        }
    }
}

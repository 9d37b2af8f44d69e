//! Parameters of OpenAI's interface and of other servers that this version does not support. A value that asks for
//! nothing is accepted, because many clients send it; any other one is refused, so that no client relies on an effect
//! that is missing.

use serde_json::{Value, json};

use super::{error::ApiError, fields::Fields};

/// A parameter and the test of whether a value asks for nothing.
pub type Rule = (&'static str, fn(&Value) -> bool);

/// The rules of `/v1/chat/completions`.
pub const CHAT: &[&[Rule]] = &[GENERATION, TEMPLATES, ENCODED_TEMPLATES];

/// The rules of `/v1/completions`.
pub const COMPLETIONS: &[&[Rule]] = &[GENERATION];

/// The rules of endpoints that fill in a chat template and do not generate.
pub const TEMPLATE: &[&[Rule]] = &[TEMPLATES];

/// The rules of `/v1/responses`.
pub const RESPONSES: &[&[Rule]] = &[
    GENERATION,
    TEMPLATES,
    ENCODED_TEMPLATES,
    OTHER_CHATS,
    &[
        ("previous_response_id", nothing),
        ("conversation", nothing),
        ("background", nothing),
        ("prompt", nothing),
        ("truncation", |value| *value == json!("disabled")),
        // The limit is `max_output_tokens`.
        ("max_tokens", |_| false),
        ("max_completion_tokens", |_| false),
        ("n_predict", |_| false),
    ],
];

/// The rules of `/v1/messages`.
pub const MESSAGES: &[&[Rule]] = &[
    GENERATION,
    TEMPLATES,
    ENCODED_TEMPLATES,
    OTHER_CHATS,
    &[
        ("mcp_servers", nothing),
        ("container", nothing),
        // They are `stop_sequences`.
        ("stop", nothing),
        ("top_logprobs", nothing),
        // The limit is `max_tokens`.
        ("n_predict", |_| false),
    ],
];

/// The rules of `/v1/embeddings`.
pub const EMBEDDINGS: &[&[Rule]] = &[
    TEMPLATES,
    &[
        ("add_special_tokens", is_true),
        ("cache_salt", nothing),
        // The norm by which llama.cpp scales embeddings: 2 is the Euclidean one.
        ("embd_normalize", |value| value.as_f64() == Some(2.0)),
        ("embed_dtype", |value| *value == json!("float32")),
        ("endianness", |value| {
            matches!(value.as_str(), Some("native" | "little"))
        }),
        ("messages", nothing),
    ],
];

/// The rules of all endpoints that generate.
const GENERATION: &[Rule] = &[
    ("audio", nothing),
    ("function_call", |value| {
        matches!(value.as_str(), Some("none" | "auto"))
    }),
    ("functions", nothing),
    ("modalities", |value| *value == json!(["text"])),
    ("prediction", nothing),
    ("suffix", nothing),
    ("web_search_options", |_| false),
    // Of other servers, whose clients send them in `extra_body`.
    ("allowed_token_ids", nothing),
    ("bad_words", nothing),
    ("cache_salt", nothing),
    ("dry_multiplier", nothing),
    ("grammar", nothing),
    ("include_stop_str_in_output", nothing),
    ("min_tokens", nothing),
    ("mirostat", nothing),
    ("prompt_embeds", nothing),
    ("prompt_logprobs", |_| false),
    // llama.cpp's default, none, and all tokens: the penalty is of all tokens here.
    ("repeat_last_n", |value| {
        matches!(value.as_i64(), Some(-1 | 0 | 64))
    }),
    ("return_token_ids", nothing),
    ("return_tokens_as_token_ids", nothing),
    ("skip_special_tokens", is_true),
    ("top_n_sigma", |value| {
        value.as_f64().is_some_and(|sigma| sigma <= 0.0)
    }),
    ("truncate_prompt_tokens", |_| false),
    ("typical_p", |value| value.as_f64() == Some(1.0)),
    ("use_beam_search", nothing),
    ("xtc_probability", nothing),
];

/// The rules of all endpoints whose prompts a chat template makes.
const TEMPLATES: &[Rule] = &[("chat_template", nothing)];

/// The rules of endpoints that generate from such prompts, which have the special tokens of the template.
const ENCODED_TEMPLATES: &[Rule] = &[("add_special_tokens", nothing)];

/// The parameters of chat completions that other chats do not have.
const OTHER_CHATS: &[Rule] = &[
    ("n", |value| value.as_u64() == Some(1)),
    ("logprobs", nothing),
    ("response_format", |value| value["type"] == "text"),
    ("structured_outputs", nothing),
    ("guided_json", nothing),
    ("json_schema", nothing),
    ("guided_regex", nothing),
    ("guided_choice", nothing),
    ("guided_grammar", nothing),
    ("chat_template_kwargs", nothing),
    ("reasoning_effort", nothing),
    ("thinking_budget", |_| false),
];

/// Returns whether a value is empty, zero or false.
fn nothing(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Null => true,
    }
}

fn is_true(value: &Value) -> bool {
    *value == Value::Bool(true)
}

/// Refuses parameters that are not supported.
///
/// # Errors
///
/// The first such parameter.
pub fn check(fields: &Fields, rules: &[&[Rule]]) -> Result<(), ApiError> {
    for (name, asks_for_nothing) in rules.iter().copied().flatten() {
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

    #[track_caller]
    fn assert_refused(rules: &[&[Rule]], body: &str, refused: Option<&str>) {
        let result = check(&Fields::parse(body.as_bytes()).unwrap(), rules);
        let found = result
            .err()
            .map(|error| error.body()["error"]["param"].clone());
        assert_eq!(found, refused.map(Value::from), "{body}");
    }

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
            // What llama.cpp's clients send by default.
            (
                r#"{"repeat_last_n": 64, "typical_p": 1, "top_n_sigma": -1.0, "xtc_probability": 0.0,
                    "dry_multiplier": 0.0, "mirostat": 0}"#,
                None,
            ),
            (r#"{"repeat_last_n": 256}"#, Some("repeat_last_n")),
            (r#"{"typical_p": 0.9}"#, Some("typical_p")),
            (r#"{"top_n_sigma": 1.5}"#, Some("top_n_sigma")),
            (r#"{"xtc_probability": 0.5}"#, Some("xtc_probability")),
            (r#"{"dry_multiplier": 0.8}"#, Some("dry_multiplier")),
            (r#"{"mirostat": 2}"#, Some("mirostat")),
            (r#"{"skip_special_tokens": true}"#, None),
            (
                r#"{"skip_special_tokens": false}"#,
                Some("skip_special_tokens"),
            ),
            (r#"{"return_token_ids": true}"#, Some("return_token_ids")),
            (r#"{"cache_salt": "a"}"#, Some("cache_salt")),
            (r#"{"chat_template": "{{ x }}"}"#, Some("chat_template")),
            (r#"{"add_special_tokens": false}"#, None),
            (
                r#"{"add_special_tokens": true}"#,
                Some("add_special_tokens"),
            ),
        ] {
            assert_refused(CHAT, body, refused);
        }
    }

    #[test]
    fn each_endpoint_has_rules_of_its_own() {
        for (rules, body, refused) in [
            (COMPLETIONS, r#"{"add_special_tokens": true}"#, None),
            (COMPLETIONS, r#"{"n": 2, "logprobs": 1}"#, None),
            (RESPONSES, r#"{"n": 2}"#, Some("n")),
            (
                RESPONSES,
                r#"{"previous_response_id": "resp_1"}"#,
                Some("previous_response_id"),
            ),
            (RESPONSES, r#"{"n": 1, "stop": "a", "seed": 5}"#, None),
            (
                RESPONSES,
                r#"{"truncation": "disabled", "background": false}"#,
                None,
            ),
            (RESPONSES, r#"{"truncation": "auto"}"#, Some("truncation")),
            (RESPONSES, r#"{"max_tokens": 5}"#, Some("max_tokens")),
            (RESPONSES, r#"{"n_predict": 5}"#, Some("n_predict")),
            (MESSAGES, r#"{"n_predict": 5}"#, Some("n_predict")),
            (
                RESPONSES,
                r#"{"response_format": {"type": "json_object"}}"#,
                Some("response_format"),
            ),
            (MESSAGES, r#"{"stop": ["a"]}"#, Some("stop")),
            (MESSAGES, r#"{"mcp_servers": [], "top_k": 5}"#, None),
            (MESSAGES, r#"{"mcp_servers": [{}]}"#, Some("mcp_servers")),
            (MESSAGES, r#"{"guided_regex": "a"}"#, Some("guided_regex")),
            (TEMPLATE, r#"{"chat_template": "x"}"#, Some("chat_template")),
            (EMBEDDINGS, r#"{"add_special_tokens": true}"#, None),
            (
                EMBEDDINGS,
                r#"{"add_special_tokens": false}"#,
                Some("add_special_tokens"),
            ),
            (
                EMBEDDINGS,
                r#"{"embed_dtype": "bf16"}"#,
                Some("embed_dtype"),
            ),
        ] {
            assert_refused(rules, body, refused);
        }
    }
}

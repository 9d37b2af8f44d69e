//! Contents of messages in the formats of Anthropic and of OpenAI's responses.

use serde_json::Value;

use super::{error::ApiError, fields::Fields};

/// Returns a content's text: a string, or a list of parts of these types, each with a `text`.
///
/// # Errors
///
/// If it has another form, or a part of another type, which the error names.
pub fn text(param: &str, content: &Value, types: &[&str]) -> Result<String, ApiError> {
    let wrong = |param: &str| {
        let types = types.join(" or ");
        let message = format!("{param} must be a string or a list of parts of type {types}");
        ApiError::parameter(param, message)
    };
    let parts = match content {
        Value::String(text) => return Ok(text.clone()),
        Value::Array(parts) => parts,
        _ => return Err(wrong(param)),
    };
    let mut whole = String::new();
    for (at, part) in parts.iter().enumerate() {
        let param = format!("{param}[{at}]");
        match (part["type"].as_str(), part["text"].as_str()) {
            (Some(kind), Some(text)) if types.contains(&kind) => whole += text,
            (Some(kind), _) if !types.contains(&kind) => {
                let message = format!("a part of type {kind} is not supported by this version");
                let error = ApiError::parameter(format!("{param}.type"), message);
                return Err(error.with_code("unsupported_parameter"));
            }
            _ => return Err(wrong(&param)),
        }
    }
    Ok(whole)
}

/// Refuses fields that are not supported, unless their values ask for nothing: null, something empty, or a value in the
/// list of the field.
///
/// # Errors
///
/// The first such field.
pub fn refuse(fields: &Fields, names: &[(&str, &[&str])]) -> Result<(), ApiError> {
    for (name, allowed) in names {
        let Some(json) = fields.raw(name) else {
            continue;
        };
        let is_empty = matches!(
            json.split_ascii_whitespace().collect::<String>().as_str(),
            "[]" | "{}" | "\"\""
        );
        if !is_empty && !allowed.contains(&json) {
            return Err(ApiError::unsupported(*name));
        }
    }
    Ok(())
}

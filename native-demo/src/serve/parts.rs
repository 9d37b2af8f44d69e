//! Contents of messages: texts and lists of parts.

use serde_json::Value;

use super::{error::ApiError, fields::Fields};

/// Returns a content's text: a string, or a list of parts of these types, each with a `text`.
///
/// # Errors
///
/// If it has another form, or a part of another type, which the error names.
pub fn text(param: &str, content: &Value, types: &[&str]) -> Result<String, ApiError> {
    let parts = match content {
        Value::String(text) => return Ok(text.clone()),
        Value::Array(parts) => parts,
        _ => {
            let types = types.join(" or ");
            let message = format!("{param} must be a string or a list of parts of type {types}");
            return Err(ApiError::parameter(param, message));
        }
    };
    let mut whole = String::new();
    for (at, part) in parts.iter().enumerate() {
        whole += part_text(&format!("{param}[{at}]"), part, types)?;
    }
    Ok(whole)
}

/// Returns the text of a part of one of these types.
///
/// # Errors
///
/// If it is of another type, which the error names, or has no text.
pub fn part_text<'p>(param: &str, part: &'p Value, types: &[&str]) -> Result<&'p str, ApiError> {
    match part["type"].as_str() {
        Some(kind) if types.contains(&kind) => string(param, part, "text"),
        Some(kind) => {
            let message = format!("a part of type {kind} is not supported by this version");
            let error = ApiError::parameter(format!("{param}.type"), message);
            Err(error.with_code("unsupported_parameter"))
        }
        None => {
            let types = types.join(" or ");
            let message = format!("{param} must be a part of type {types}");
            Err(ApiError::parameter(param, message))
        }
    }
}

/// Returns a string in a part.
///
/// # Errors
///
/// If it is missing or no string.
pub fn string<'p>(param: &str, part: &'p Value, name: &str) -> Result<&'p str, ApiError> {
    let wrong = || {
        let param = format!("{param}.{name}");
        ApiError::parameter(&param, format!("{param} must be a string"))
    };
    part[name].as_str().ok_or_else(wrong)
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

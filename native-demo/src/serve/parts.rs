//! Contents of messages: texts and lists of parts.

use serde_json::Value;

use super::error::ApiError;

/// Returns a content's text: a string, or a list of parts of these types, each with a `text`. Each part begins a line.
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
        push(
            &mut whole,
            part_text(&format!("{param}[{at}]"), part, types)?,
        );
    }
    Ok(whole)
}

/// Appends the text of a part to those before it, on a new line as in vLLM and llama.cpp: clients that split a text into
/// parts mean separate texts, whose sentences would run into one another.
pub fn push(whole: &mut String, part: &str) {
    if !whole.is_empty() && !part.is_empty() {
        whole.push('\n');
    }
    whole.push_str(part);
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
            Err(ApiError::unsupported_value(
                format!("{param}.type"),
                message,
            ))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_are_joined_by_line_breaks() {
        let part = |text: &str| json!({ "type": "text", "text": text });
        for (content, expected) in [
            (json!("a"), "a"),
            (json!([]), ""),
            (json!([part("a")]), "a"),
            (json!([part("a."), part("b.")]), "a.\nb."),
            (json!([part(""), part("a"), part(""), part("b")]), "a\nb"),
        ] {
            assert_eq!(text("content", &content, &["text"]).unwrap(), expected);
        }
    }
}

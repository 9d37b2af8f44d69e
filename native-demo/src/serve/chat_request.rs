//! What a chat asks of the model: its messages, tools and template.

use serde_json::{Map, Value};
use wisp_engine::chat::ChatRequest;

use super::{
    error::ApiError,
    fields::Fields,
    messages,
    tools::{self, Interface},
};

/// The efforts of reasoning in OpenAI's interface.
const EFFORTS: [&str; 6] = ["none", "minimal", "low", "medium", "high", "xhigh"];

/// The characters of a token in most texts.
const TOKEN_CHARACTERS: usize = 4;

/// Reads the request of a chat.
///
/// # Errors
///
/// If a message, a tool or a parameter is invalid or not supported.
pub fn of(fields: &Fields) -> Result<ChatRequest, ApiError> {
    let mut request = ChatRequest::new(messages::of(fields)?);
    let kwargs: Map<String, Value> = fields.get_or("chat_template_kwargs", Map::new())?;
    request.thinking = kwargs.get("enable_thinking").and_then(Value::as_bool);
    request.variables = kwargs;
    if let Some(effort) = fields.get::<String>("reasoning_effort")? {
        set_effort(&mut request, "reasoning_effort", &effort)?;
    }
    if let Some(tokens) = fields.get::<usize>("thinking_budget")? {
        limit_thoughts(&mut request, tokens);
        request.thinking = request.thinking.or((tokens == 0).then_some(false));
    }
    if let Some(documents) = fields.get::<Vec<Value>>("documents")? {
        request
            .variables
            .insert("documents".into(), documents.into());
    }
    tools::offer(request, fields, Interface::Chat)
}

/// Sets how much the model thinks, unless its template's variables say whether it does.
///
/// # Errors
///
/// If the effort, which stands in `param`, is none of OpenAI's.
pub fn set_effort(request: &mut ChatRequest, param: &str, effort: &str) -> Result<(), ApiError> {
    if !EFFORTS.contains(&effort) {
        let efforts = EFFORTS.join(", ");
        let message = format!("{param} is {effort:?}, but must be one of {efforts}");
        return Err(ApiError::parameter(param, message));
    }
    request.thinking = request.thinking.or(Some(effort != "none"));
    if effort != "none" {
        request
            .variables
            .insert("reasoning_effort".into(), effort.into());
    }
    Ok(())
}

/// Limits the model's thoughts to about this many tokens.
pub fn limit_thoughts(request: &mut ChatRequest, tokens: usize) {
    request.thinking_limit = Some(tokens.saturating_mul(TOKEN_CHARACTERS));
}

#[cfg(test)]
mod tests {
    use wisp_engine::tools::ToolChoice;

    use super::*;

    const FUNCTION: &str = r#"{"type": "function", "function": {"name": "f"}}"#;

    fn read(more: &str) -> Result<ChatRequest, ApiError> {
        let body = format!(r#"{{"messages": [{{"role": "user", "content": "a"}}]{more}}}"#);
        of(&Fields::parse(body.as_bytes()).unwrap())
    }

    #[test]
    fn choices_of_tools_are_read() {
        let of = |choice: &str| {
            let request = read(&format!(
                r#", "tools": [{FUNCTION}], "tool_choice": {choice}"#
            ));
            request.unwrap().tool_choice().clone()
        };
        assert_eq!(of("null"), ToolChoice::Auto);
        assert_eq!(of("\"none\""), ToolChoice::None);
        assert_eq!(of("\"required\""), ToolChoice::Required);
        assert_eq!(of(FUNCTION), ToolChoice::Function("f".into()));
        assert!(read("").unwrap().tools().is_none());
        assert!(
            read(r#", "tools": [], "tool_choice": "auto""#)
                .unwrap()
                .tools()
                .is_none()
        );
    }

    #[test]
    fn thinking_is_switched_by_effort_and_by_the_template() {
        let of = |more: &str| read(more).unwrap().thinking;
        assert_eq!(of(""), None);
        assert_eq!(of(r#", "reasoning_effort": "none""#), Some(false));
        assert_eq!(of(r#", "reasoning_effort": "high""#), Some(true));
        let kwargs = r#", "chat_template_kwargs": {"enable_thinking": false, "x": 1}"#;
        assert_eq!(of(kwargs), Some(false));
        assert_eq!(read(kwargs).unwrap().variables["x"], 1);
    }

    #[test]
    fn invalid_requests_are_named() {
        for (more, param) in [
            (r#", "tools": [{"type": "function"}]"#, "tools[0].function"),
            (r#", "tools": [{"type": "web_search"}]"#, "tools[0].type"),
            (
                r#", "tools": [{"type": "function", "function": {"name": "a b"}}]"#,
                "tools[0].function.name",
            ),
            (
                r#", "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "string"}}}]"#,
                "tools[0].function.parameters",
            ),
            (&format!(r#", "tools": [{FUNCTION}, {FUNCTION}]"#), "tools"),
            (r#", "tools": 5"#, "tools"),
            (r#", "tool_choice": "required""#, "tool_choice"),
            (&format!(r#", "tool_choice": {FUNCTION}"#), "tool_choice"),
            (r#", "tool_choice": "always""#, "tool_choice"),
            (r#", "tool_choice": {"type": "custom"}"#, "tool_choice.type"),
            (r#", "reasoning_effort": "huge""#, "reasoning_effort"),
            (r#", "chat_template_kwargs": 5"#, "chat_template_kwargs"),
        ] {
            let error = read(more).unwrap_err().body();
            assert_eq!(error["error"]["param"], param, "{more}: {error}");
        }
    }
}

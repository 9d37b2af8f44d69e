//! What a chat asks of the model: its messages, tools and template.

use serde_json::{Map, Value};
use wisp_engine::{
    Message,
    chat::{AnswerStart, ChatRequest},
};

use super::{
    error::ApiError,
    fields::Fields,
    messages,
    tools::{self, Interface},
};

/// Reads the request of a chat.
///
/// # Errors
///
/// If a message, a tool or a parameter is invalid or not supported.
pub fn of(fields: &Fields) -> Result<ChatRequest, ApiError> {
    let mut request = ChatRequest::new(messages::of(fields)?);
    request.start = start(fields)?;
    if request.start == AnswerStart::Continued {
        check_continued(&request.messages)
            .map_err(|problem| ApiError::parameter("continue_final_message", problem))?;
    }
    request.set_variables(fields.get_or("chat_template_kwargs", Map::new())?);
    if let Some(effort) = fields.get("reasoning_effort")? {
        request.set_effort(effort);
    }
    if let Some(tokens) = fields.get::<usize>("thinking_budget")? {
        request.thinking_limit = Some(tokens);
        request.thinking = request.thinking.or((tokens == 0).then_some(false));
    }
    if let Some(documents) = fields.get::<Vec<Value>>("documents")? {
        request
            .variables
            .insert("documents".into(), documents.into());
    }
    tools::offer(request, fields, Interface::Chat)
}

/// Reads where the answer begins, as vLLM's clients say it.
fn start(fields: &Fields) -> Result<AnswerStart, ApiError> {
    let continues = fields.get_or("continue_final_message", false)?;
    match (
        continues,
        fields.get_or("add_generation_prompt", !continues)?,
    ) {
        (true, false) => Ok(AnswerStart::Continued),
        (false, true) => Ok(AnswerStart::Prompted),
        (false, false) => Ok(AnswerStart::Unprompted),
        (true, true) => {
            let message = "continue_final_message and add_generation_prompt cannot both be true";
            Err(ApiError::parameter("continue_final_message", message))
        }
    }
}

/// Checks that the last message can be continued; the error says why it cannot.
pub fn check_continued(messages: &[Message]) -> Result<(), &'static str> {
    match messages.last() {
        Some(last) if last.role != "assistant" => Err("the last message must be the assistant's"),
        Some(last) if last.extra.contains_key("tool_calls") => {
            Err("a message with calls of tools cannot be continued")
        }
        _ => Ok(()),
    }
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
    fn answers_begin_where_the_client_says() {
        let of = |more: &str| {
            let messages =
                r#"[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]"#;
            let body = format!(r#"{{"messages": {messages}{more}}}"#);
            let request = super::of(&Fields::parse(body.as_bytes()).unwrap());
            request
                .map(|request| request.start)
                .map_err(|error| error.body()["error"]["param"].clone())
        };
        assert_eq!(of(""), Ok(AnswerStart::Prompted));
        assert_eq!(
            of(r#", "continue_final_message": true"#),
            Ok(AnswerStart::Continued)
        );
        let both = r#", "continue_final_message": true, "add_generation_prompt": "#;
        assert_eq!(of(&format!("{both}false")), Ok(AnswerStart::Continued));
        assert_eq!(
            of(&format!("{both}true")),
            Err("continue_final_message".into())
        );
        assert_eq!(
            of(r#", "add_generation_prompt": false"#),
            Ok(AnswerStart::Unprompted)
        );
    }

    #[test]
    fn allowed_tools_are_read() {
        let of = |choice: &str| {
            let tools = r#"[{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "g"}}]"#;
            read(&format!(r#", "tools": {tools}, "tool_choice": {choice}"#))
        };
        let allowed = |mode: &str, tools: &str| {
            format!(
                r#"{{"type": "allowed_tools", "allowed_tools": {{"mode": "{mode}", "tools": [{tools}]}}}}"#
            )
        };
        for (mode, choice) in [
            ("auto", ToolChoice::Auto),
            ("required", ToolChoice::Required),
        ] {
            let request = of(&allowed(mode, FUNCTION)).unwrap();
            assert_eq!(*request.tool_choice(), choice);
            assert_eq!(request.tools().unwrap().iter().count(), 2);
            let callable = request.callable_tools().unwrap().iter();
            assert_eq!(callable.map(|tool| tool.name()).collect::<Vec<_>>(), ["f"]);
        }
        let unknown = r#"{"type": "function", "function": {"name": "h"}}"#;
        for (choice, param) in [
            (allowed("auto", ""), "tool_choice.allowed_tools.tools"),
            (allowed("auto", unknown), "tool_choice.allowed_tools.tools"),
            (
                allowed("auto", r#"{"type": "mcp"}"#),
                "tool_choice.allowed_tools.tools[0].type",
            ),
            (
                allowed("auto", r#"{"type": "function"}"#),
                "tool_choice.allowed_tools.tools[0].function",
            ),
            (allowed("none", FUNCTION), "tool_choice.allowed_tools.mode"),
            (
                r#"{"type": "allowed_tools"}"#.into(),
                "tool_choice.allowed_tools",
            ),
        ] {
            let error = of(&choice).unwrap_err().body();
            assert_eq!(error["error"]["param"], param, "{choice}: {error}");
        }
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
            (
                r#", "continue_final_message": true"#,
                "continue_final_message",
            ),
            (r#", "reasoning_effort": "huge""#, "reasoning_effort"),
            (r#", "chat_template_kwargs": 5"#, "chat_template_kwargs"),
        ] {
            let error = read(more).unwrap_err().body();
            assert_eq!(error["error"]["param"], param, "{more}: {error}");
        }
    }
}

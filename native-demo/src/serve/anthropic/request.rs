//! Chats as Anthropic's clients send them.

use serde::Deserialize;
use serde_json::Value;
use wisp_engine::{
    Message, SamplingDefaults,
    chat::{AnswerStart, ChatRequest, ReasoningEffort},
};

use super::super::{
    chat_request,
    error::ApiError,
    fields::Fields,
    parts,
    sampling::{GenerationParams, OF_ALL_CHATS, stops},
    tools::{self, Interface},
    turns::{self, Turn},
};

/// The types of parts that are text.
const TEXT: &[&str] = &["text"];

/// How a block begins that Claude Code adds to the system prompt for Anthropic's billing. It differs in each request,
/// so that the prefix cache would find nothing behind it.
const BILLING: &str = "x-anthropic-billing-header:";

/// A message as clients send it.
#[derive(Deserialize)]
struct Sent {
    role: String,
    content: Value,
}

/// What is said of thoughts, as clients send it.
#[derive(Deserialize)]
struct Thinking {
    #[serde(rename = "type")]
    kind: String,
    budget_tokens: Option<usize>,
}

/// How the answer is to be, as clients send it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OutputConfig {
    effort: Option<ReasoningEffort>,
}

/// Reads what a request asks of the model: its system prompt, messages, tools and thoughts.
///
/// # Errors
///
/// If there are no messages, the last one cannot be continued, or one has a role or a content that the server does not
/// support, or a tool is invalid.
pub fn chat(fields: &Fields) -> Result<ChatRequest, ApiError> {
    let sent: Vec<Sent> = fields.require("messages")?;
    let mut request = ChatRequest::new(messages(fields, &sent)?);
    set_thinking(&mut request, fields)?;
    let output = fields.get_or("output_config", OutputConfig::default())?;
    if let Some(effort) = output.effort {
        // Whether the model thinks at all is said by `thinking`.
        let thinking = request.thinking;
        request.set_effort(effort);
        request.thinking = thinking;
    }
    if sent.last().is_some_and(|last| last.role == "assistant") {
        continue_last(&mut request)?;
    }
    tools::offer(request, fields, Interface::Messages)
}

fn set_thinking(request: &mut ChatRequest, fields: &Fields) -> Result<(), ApiError> {
    let Some(thinking) = fields.get::<Thinking>("thinking")? else {
        // Anthropic's models think only if the client asks for it.
        request.thinking = Some(false);
        return Ok(());
    };
    request.thinking = match thinking.kind.as_str() {
        "enabled" => Some(true),
        "disabled" => Some(false),
        // The model decides.
        "adaptive" => None,
        kind => {
            let param = "thinking.type";
            let message = format!("{param} is {kind:?}, but must be enabled, disabled or adaptive");
            return Err(ApiError::parameter(param, message));
        }
    };
    match thinking.budget_tokens {
        Some(0) => {
            let param = "thinking.budget_tokens";
            let message = format!("{param} must be 1 or more");
            Err(ApiError::parameter(param, message))
        }
        Some(tokens) if request.thinking == Some(true) => {
            request.thinking_limit = Some(tokens);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Lets the model continue the last message, which is the assistant's.
fn continue_last(request: &mut ChatRequest) -> Result<(), ApiError> {
    let refuse = |problem| Err(ApiError::parameter("messages", problem));
    if let Err(problem) = chat_request::check_continued(&request.messages) {
        return refuse(problem);
    }
    if request.thinking == Some(true) {
        return refuse(
            "an answer that the client begins has no thoughts: end with a message of the user, or disable thinking",
        );
    }
    request.start = AnswerStart::Continued;
    Ok(())
}

fn messages(fields: &Fields, sent: &[Sent]) -> Result<Vec<Message>, ApiError> {
    // Texts of the system among the messages come first too, as in vLLM: few models were trained with others.
    let mut all: Vec<Message> = Vec::with_capacity(sent.len() + 1);
    if let Some(content) = fields.get::<Value>("system")? {
        turns::push_system(&system("system", &content)?, &mut all);
    }
    let mut messages: Vec<Message> = Vec::with_capacity(sent.len());
    for (at, sent) in sent.iter().enumerate() {
        let param = format!("messages[{at}].content");
        match sent.role.as_str() {
            "user" => user(&param, &sent.content, &mut messages)?,
            "assistant" => messages.push(assistant(&param, &sent.content)?),
            "system" => turns::push_system(&system(&param, &sent.content)?, &mut all),
            _ => {
                let param = format!("messages[{at}].role");
                let message = format!("{param} must be user, assistant or system");
                return Err(ApiError::parameter(param, message));
            }
        }
    }
    if sent.is_empty() {
        return Err(ApiError::parameter("messages", "messages is empty"));
    }
    all.extend(messages);
    Ok(all)
}

/// Reads a text of the system, without the block for Anthropic's billing.
fn system(param: &str, content: &Value) -> Result<String, ApiError> {
    let Value::Array(blocks) = content else {
        return parts::text(param, content, TEXT);
    };
    let mut whole = String::new();
    for (at, block) in blocks.iter().enumerate() {
        let text = parts::part_text(&format!("{param}[{at}]"), block, TEXT)?;
        if !text.starts_with(BILLING) {
            parts::push(&mut whole, text);
        }
    }
    Ok(whole)
}

/// Reads a turn of the user: texts and results of calls, which are messages of their own.
fn user(param: &str, content: &Value, messages: &mut Vec<Message>) -> Result<(), ApiError> {
    let Value::Array(blocks) = content else {
        messages.push(Message::new("user", parts::text(param, content, TEXT)?));
        return Ok(());
    };
    let mut text: Option<String> = blocks.is_empty().then(String::new);
    for (at, block) in blocks.iter().enumerate() {
        let param = format!("{param}[{at}]");
        if block["type"] != "tool_result" {
            let part = parts::part_text(&param, block, TEXT)?;
            parts::push(text.get_or_insert_default(), part);
            continue;
        }
        messages.extend(text.take().map(|text| Message::new("user", text)));
        let id = parts::string(&param, block, "tool_use_id")?;
        let result = match &block["content"] {
            Value::Null => String::new(),
            content => parts::text(&format!("{param}.content"), content, TEXT)?,
        };
        // Templates know of no failed calls.
        let result = match block["is_error"] == true {
            true => format!("Error: {result}"),
            false => result,
        };
        messages.push(turns::result(id.into(), result));
    }
    messages.extend(text.map(|text| Message::new("user", text)));
    Ok(())
}

/// Reads a turn of the model: thoughts, texts and calls.
fn assistant(param: &str, content: &Value) -> Result<Message, ApiError> {
    let Value::Array(blocks) = content else {
        let content = parts::text(param, content, TEXT)?;
        return Ok(Message::new("assistant", content));
    };
    let mut turn = Turn::default();
    for (at, block) in blocks.iter().enumerate() {
        let param = format!("{param}[{at}]");
        match block["type"].as_str() {
            Some("thinking") => {
                let thoughts = parts::string(&param, block, "thinking")?;
                parts::push(turn.thoughts.get_or_insert_default(), thoughts);
            }
            // Encrypted thoughts of Anthropic's models, which no other model can read.
            Some("redacted_thinking") => {}
            Some("tool_use") => {
                let id = parts::string(&param, block, "id")?;
                let name = parts::string(&param, block, "name")?;
                let input = &block["input"];
                if !input.is_object() {
                    let param = format!("{param}.input");
                    let message = format!("{param} must be an object");
                    return Err(ApiError::parameter(param, message));
                }
                let call = turns::call(Some(id.into()), name, &input.to_string());
                turn.calls.push(call);
            }
            _ => parts::push(&mut turn.text, parts::part_text(&param, block, TEXT)?),
        }
    }
    Ok(turn.message())
}

/// Reads the parameters of generation.
///
/// # Errors
///
/// If one is missing, has the wrong type, or a value that the server refuses.
pub fn params(fields: &Fields, defaults: &SamplingDefaults) -> Result<GenerationParams, ApiError> {
    let mut params = GenerationParams::of(&fields.only(OF_ALL_CHATS), defaults)?;
    let max_tokens: usize = fields.require("max_tokens")?;
    if max_tokens == 0 {
        return Err(ApiError::parameter(
            "max_tokens",
            "max_tokens must be 1 or more",
        ));
    }
    params.options.max_new_tokens = Some(max_tokens);
    params.options.stop = stops(fields, "stop_sequences")?;
    Ok(params)
}

#[cfg(test)]
mod tests {
    use wisp_engine::tools::ToolChoice;

    use super::*;

    fn error(body: &str) -> Value {
        let fields = Fields::parse(body.as_bytes()).unwrap();
        let error = chat(&fields)
            .map(drop)
            .and_then(|()| params(&fields, &SamplingDefaults::default()).map(drop));
        error.unwrap_err().body()["error"]["param"].clone()
    }

    #[test]
    fn contents_and_system_prompts_are_strings_or_parts_of_text() {
        let body = r#"{"system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": "b"}, {"role": "assistant", "content": "c"},
            {"role": "user", "content": [{"type": "text", "text": "d"}, {"type": "text", "text": "e"}]}]}"#;
        let expected = [
            ("system", "a"),
            ("user", "b"),
            ("assistant", "c"),
            ("user", "d\ne"),
        ];
        let expected = expected.map(|(role, text)| Message::new(role, text));
        let fields = Fields::parse(body.as_bytes()).unwrap();
        assert_eq!(chat(&fields).unwrap().messages, expected);
    }

    #[test]
    fn texts_of_the_system_are_read_without_billing() {
        let body = r#"{"system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2; cch=1a2b3;"},
            {"type": "text", "text": "a"}], "messages": [{"role": "system", "content": "b"},
            {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"},
            {"role": "system", "content": [{"type": "text", "text": "e"}, {"type": "text", "text": "f"}]}]}"#;
        let expected = [
            ("system", "a\n\nb\n\ne\nf"),
            ("user", "c"),
            ("assistant", "d"),
        ];
        let expected = expected.map(|(role, text)| Message::new(role, text));
        let request = chat(&Fields::parse(body.as_bytes()).unwrap()).unwrap();
        assert_eq!(request.messages, expected);
        // The assistant's message is not the last one that was sent.
        assert_eq!(request.start, AnswerStart::Prompted);
    }

    #[test]
    fn calls_and_results_are_messages_as_templates_read_them() {
        let body = r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [
            {"type": "redacted_thinking", "data": "Zm9v"},
            {"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "b"},
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "is_error": true,
            "content": [{"type": "text", "text": "c"}]}, {"type": "tool_result", "tool_use_id": "toolu_2"},
            {"type": "text", "text": "d"}, {"type": "text", "text": "e"}]}]}"#;
        let turn = Turn {
            thoughts: Some("hm".into()),
            text: "b".into(),
            calls: vec![turns::call(Some("toolu_1".into()), "f", r#"{"x":1}"#)],
        };
        let expected = [
            Message::new("user", "a"),
            turn.message(),
            turns::result("toolu_1".into(), "Error: c".into()),
            turns::result("toolu_2".into(), String::new()),
            Message::new("user", "d\ne"),
        ];
        let fields = Fields::parse(body.as_bytes()).unwrap();
        assert_eq!(chat(&fields).unwrap().messages, expected);
    }

    #[test]
    fn tools_and_thoughts_are_read() {
        let read = |more: &str| {
            let hello = r#""messages": [{"role": "user", "content": "a"}]"#;
            let body = format!(r#"{{{hello}, "tools": [{{"name": "f"}}], {more}}}"#);
            chat(&Fields::parse(body.as_bytes()).unwrap()).unwrap()
        };
        for (choice, expected) in [
            ("null", ToolChoice::Auto),
            (r#"{"type": "auto"}"#, ToolChoice::Auto),
            (r#"{"type": "none"}"#, ToolChoice::None),
            (r#"{"type": "any"}"#, ToolChoice::Required),
            (
                r#"{"type": "tool", "name": "f"}"#,
                ToolChoice::Function("f".into()),
            ),
        ] {
            let request = read(&format!("\"tool_choice\": {choice}"));
            assert_eq!(*request.tool_choice(), expected);
            // A tool that the choice names is called once.
            let is_named = matches!(expected, ToolChoice::Function(_));
            assert_eq!(request.parallel_calls(), !is_named);
        }
        let single = r#""tool_choice": {"type": "any", "disable_parallel_tool_use": true}"#;
        assert!(!read(single).parallel_calls());
        for (thinking, switch, limit) in [
            ("null", Some(false), None),
            (r#"{"type": "adaptive"}"#, None, None),
            (r#"{"type": "disabled"}"#, Some(false), None),
            (
                r#"{"type": "enabled", "budget_tokens": 100}"#,
                Some(true),
                Some(100),
            ),
        ] {
            let request = read(&format!("\"thinking\": {thinking}"));
            assert_eq!((request.thinking, request.thinking_limit), (switch, limit));
        }
    }

    #[test]
    fn tools_of_other_types_are_left_out() {
        let body = r#"{"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "f"},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}, {"type": "custom", "name": "g"}]}"#;
        let request = chat(&Fields::parse(body.as_bytes()).unwrap()).unwrap();
        let tools = request.tools().unwrap().iter();
        assert_eq!(
            tools.map(|tool| tool.name()).collect::<Vec<_>>(),
            ["f", "g"]
        );
    }

    #[test]
    fn what_is_wrong_or_unsupported_is_named() {
        let hello = r#""messages": [{"role": "user", "content": "a"}]"#;
        for (body, param) in [
            (format!("{{{hello}}}"), "max_tokens"),
            (format!("{{{hello}, \"max_tokens\": 0}}"), "max_tokens"),
            (
                format!("{{{hello}, \"max_tokens\": 5, \"stop_sequences\": [\"\"]}}"),
                "stop_sequences",
            ),
            (
                format!("{{{hello}, \"tools\": [{{\"name\": \"a b\"}}]}}"),
                "tools[0].name",
            ),
            (
                format!("{{{hello}, \"tools\": [{{\"name\": \"f\", \"input_schema\": 5}}]}}"),
                "tools[0].input_schema",
            ),
            (
                format!("{{{hello}, \"tools\": [{{\"type\": \"web_search_20250305\", \"name\": \"f\"}}], \"tool_choice\": {{\"type\": \"any\"}}}}"),
                "tool_choice",
            ),
            (
                format!("{{{hello}, \"tool_choice\": {{\"type\": \"any\"}}}}"),
                "tool_choice",
            ),
            (
                format!("{{{hello}, \"tool_choice\": {{\"type\": \"tool\"}}}}"),
                "tool_choice.name",
            ),
            (
                format!("{{{hello}, \"thinking\": {{\"type\": \"always\"}}}}"),
                "thinking.type",
            ),
            (
                format!("{{{hello}, \"thinking\": {{\"type\": \"enabled\", \"budget_tokens\": 0}}}}"),
                "thinking.budget_tokens",
            ),
            (
                r#"{"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}"#.into(),
                "messages[0].content[0].tool_use_id",
            ),
            (
                r#"{"messages": [{"role": "user", "content": [{"type": "tool_use"}]}]}"#.into(),
                "messages[0].content[0].type",
            ),
            (
                r#"{"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": "{}"}]}]}"#.into(),
                "messages[0].content[0].input",
            ),
            (format!("{{{hello}, \"system\": 5}}"), "system"),
            (r#"{"messages": []}"#.into(), "messages"),
            (
                r#"{"messages": [{"role": "king", "content": "a"}]}"#.into(),
                "messages[0].role",
            ),
            (
                r#"{"messages": [{"role": "system", "content": [{"type": "image"}]}]}"#.into(),
                "messages[0].content[0].type",
            ),
            (
                r#"{"messages": [{"role": "assistant", "content": "a"}], "thinking": {"type": "enabled"}}"#.into(),
                "messages",
            ),
            (
                r#"{"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}]}"#.into(),
                "messages",
            ),
            (r#"{"messages": [{"role": "user"}]}"#.into(), "messages[0]"),
            (
                r#"{"messages": [{"role": "user", "content": [{"type": "image"}]}]}"#.into(),
                "messages[0].content[0].type",
            ),
        ] {
            assert_eq!(error(&body), param, "{body}");
        }
    }
}

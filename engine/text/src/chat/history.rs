//! The messages of a conversation with tools, as a chat template expects them.

use serde_json::{Value, json};

use crate::chat_template::Message;
use crate::tools::Tools;

/// The length of a call's id that Mistral's templates demand.
const SHORT_ID: usize = 9;

/// What a chat template knows of tools.
#[derive(Debug, Clone, Copy)]
pub(super) struct TemplateTraits {
    /// It describes tools.
    pub describes_tools: bool,
    /// It writes calls and results.
    writes_calls: bool,
    /// It takes the description of the tools from the system message.
    tools_in_message: bool,
    short_ids: bool,
    has_thinking: bool,
}

impl TemplateTraits {
    /// Finds out what a template knows by the names in its source.
    pub fn of(source: &str) -> TemplateTraits {
        TemplateTraits {
            describes_tools: mentions(source, "tools"),
            writes_calls: mentions(source, "tool_calls") || mentions(source, "tool_call"),
            tools_in_message: source.contains("message['tools']")
                || source.contains("message.tools"),
            short_ids: source.contains("length != 9") || source.contains("length < 9"),
            has_thinking: source.contains("message.thinking")
                || source.contains("message['thinking']"),
        }
    }
}

/// Returns whether messages have calls.
pub(super) fn have_calls(messages: &[Message]) -> bool {
    let mut messages = messages.iter();
    messages.any(|message| message.extra.contains_key("tool_calls"))
}

/// Returns messages whose calls have their arguments as text.
pub(super) fn with_text_arguments(mut messages: Vec<Message>) -> Vec<Message> {
    let calls = messages
        .iter_mut()
        .filter_map(|message| message.extra.get_mut("tool_calls"));
    for call in calls.filter_map(Value::as_array_mut).flatten() {
        if let Some(arguments) = call.pointer_mut("/function/arguments")
            && !arguments.is_string()
        {
            *arguments = arguments.to_string().into();
        }
    }
    messages
}

/// Returns whether a word is in a text, not as a part of another one.
fn mentions(text: &str, word: &str) -> bool {
    let is_inside = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(is_inside) && !after.starts_with(is_inside)
    })
}

/// Returns the messages for a template. Calls and results become text where it does not write them, and
/// tools are described in the system message where it does not describe them.
pub(super) fn messages(
    messages: &[Message],
    tools: Option<&Tools>,
    traits: TemplateTraits,
) -> Vec<Message> {
    let mut adapted: Vec<Message> = Vec::with_capacity(messages.len() + 1);
    for (at, message) in messages.iter().enumerate() {
        let native = native(message, &messages[..at], traits);
        let message = match traits.writes_calls {
            true => native,
            false => as_text(native),
        };
        match adapted.last_mut() {
            // Templates without tools want users and assistants to take turns.
            Some(last) if !traits.writes_calls && is_merged(last, &message) => {
                last.content += "\n";
                last.content += &message.content;
            }
            _ => adapted.push(message),
        }
    }
    if let Some(tools) = tools {
        if !traits.describes_tools {
            add_to_system(&mut adapted, |system| {
                let line = if system.content.is_empty() {
                    ""
                } else {
                    "\n\n"
                };
                system.content += &format!("{line}{}", description(tools));
            });
        } else if traits.tools_in_message {
            let functions = tools.to_json();
            let functions = functions.as_array().into_iter().flatten();
            let functions: Value = functions.map(|tool| tool["function"].clone()).collect();
            add_to_system(&mut adapted, |system| {
                let text = functions.to_string();
                system.extra.insert("tools".into(), text.into());
            });
        }
    }
    adapted
}

/// Returns whether there is a system message behind the first message.
pub(super) fn have_later_system(messages: &[Message]) -> bool {
    let mut messages = messages.iter().skip(1);
    messages.any(|message| message.role == "system")
}

/// Returns messages whose system messages are one, in front of all others.
pub(super) fn with_system_first(messages: Vec<Message>) -> Vec<Message> {
    let is_system = |message: &Message| message.role == "system";
    let (system, mut messages): (Vec<Message>, Vec<Message>) =
        messages.into_iter().partition(is_system);
    let texts = system.iter().map(|message| message.content.as_str());
    let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
    let content = texts.join("\n\n");
    if let Some(first) = system.into_iter().next() {
        messages.insert(0, Message { content, ..first });
    }
    messages
}

/// Returns messages without system message: the first user's begins with its text.
pub(super) fn without_system(mut messages: Vec<Message>) -> Vec<Message> {
    if messages
        .first()
        .is_some_and(|message| message.role == "system")
    {
        let system = messages.remove(0);
        match messages.iter_mut().find(|message| message.role == "user") {
            Some(user) => user.content = format!("{}\n\n{}", system.content, user.content),
            None => messages.insert(0, Message::new("user", system.content)),
        }
    }
    messages
}

fn add_to_system(messages: &mut Vec<Message>, change: impl FnOnce(&mut Message)) {
    if messages
        .first()
        .is_none_or(|message| message.role != "system")
    {
        messages.insert(0, Message::new("system", ""));
    }
    messages.first_mut().map(change);
}

/// Returns a message with calls whose arguments are objects, as templates expect them.
fn native(message: &Message, before: &[Message], traits: TemplateTraits) -> Message {
    let mut message = message.clone();
    if let Some(Value::Array(calls)) = message.extra.get_mut("tool_calls") {
        for call in calls {
            if let Some(id) = call.get_mut("id") {
                shorten(id, traits);
            }
            let arguments = call.pointer_mut("/function/arguments");
            if let Some(arguments) = arguments
                && let Some(text) = arguments.as_str()
            {
                let text = if text.trim().is_empty() { "{}" } else { text };
                if let Ok(parsed @ Value::Object(_)) = serde_json::from_str(text) {
                    *arguments = parsed;
                }
            }
        }
    }
    if message.role == "tool"
        && !message.extra.contains_key("name")
        && let Some(id) = message.extra.get("tool_call_id")
        && let Some(name) = called(id, before)
    {
        message.extra.insert("name".into(), name);
    }
    if let Some(id) = message.extra.get_mut("tool_call_id") {
        shorten(id, traits);
    }
    if traits.has_thinking
        && let Some(text) = message.extra.get("reasoning_content")
    {
        let text = text.clone();
        message.extra.insert("thinking".into(), text);
    }
    message
}

/// Returns the name of the tool of a call.
fn called(id: &Value, before: &[Message]) -> Option<Value> {
    let calls = before
        .iter()
        .rev()
        .filter_map(|message| message.extra.get("tool_calls")?.as_array());
    let call = calls.flatten().find(|call| &call["id"] == id)?;
    call.pointer("/function/name").cloned()
}

/// Shortens an id where the template demands it: to its last characters if they suffice, else to a hash.
fn shorten(id: &mut Value, traits: TemplateTraits) {
    let Some(text) = id
        .as_str()
        .filter(|text| traits.short_ids && text.len() != SHORT_ID)
    else {
        return;
    };
    let end = text.len().saturating_sub(SHORT_ID);
    let tail = text.get(end..).unwrap_or_default();
    let is_enough = tail.len() == SHORT_ID && tail.bytes().all(|byte| byte.is_ascii_alphanumeric());
    *id = match is_enough {
        true => tail.into(),
        false => {
            // FNV-1a.
            let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            format!("{:09x}", hash & 0xf_ffff_ffff).into()
        }
    };
}

/// Returns a message whose calls or result are text of the generic format.
fn as_text(mut message: Message) -> Message {
    if let Some(Value::Array(calls)) = message.extra.remove("tool_calls") {
        for call in calls {
            let function = json!({
                "name": call["function"]["name"], "arguments": call["function"]["arguments"],
            });
            let line = if message.content.is_empty() { "" } else { "\n" };
            message.content += &format!("{line}<tool_call>\n{function}\n</tool_call>");
        }
    }
    if message.role == "tool" {
        let text = format!("<tool_response>\n{}\n</tool_response>", message.content);
        message = Message::new("user", text);
    }
    message
}

/// Returns whether a message continues the one before: results and what the user adds to them.
fn is_merged(last: &Message, message: &Message) -> bool {
    let is_user = |message: &Message| message.role == "user";
    is_user(last) && is_user(message) && last.content.starts_with("<tool_response>")
}

/// Describes tools to a model whose template does not, and the generic format of calls.
fn description(tools: &Tools) -> String {
    let lines = tools.iter().map(|tool| {
        let mut function = tool.to_json()["function"].take();
        if let (None, Some(fields)) = (tool.description(), function.as_object_mut()) {
            fields.shift_remove("description");
        }
        format!("{function}\n")
    });
    format!(
        "You can call these functions:\n<tools>\n{}</tools>\nTo call one, answer with\n\
         <tool_call>\n{{\"name\": \"…\", \"arguments\": {{…}}}}\n</tool_call>",
        lines.collect::<String>()
    )
}

//! The messages of a conversation with tools, as a chat template expects them.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::chat_template::Message;
use crate::tools::{GENERIC, ToolFormat, Tools};

/// The length of a call's id that Mistral's templates demand.
const SHORT_ID: usize = 9;

/// What a chat template knows of tools.
#[derive(Debug, Clone, Copy)]
pub(super) struct TemplateTraits {
    /// It describes tools.
    pub describes_tools: bool,
    /// The format of calls that the prompt asks for where the template does not describe tools.
    pub described_format: &'static ToolFormat,
    /// It writes calls and results.
    writes_calls: bool,
    /// It joins the arguments of calls to text.
    joins_arguments: bool,
    /// It takes the description of the tools from the system message.
    tools_in_message: bool,
    short_ids: bool,
    has_thinking: bool,
}

impl TemplateTraits {
    /// Finds out what a template knows by the names in its source.
    pub fn of(source: &str) -> TemplateTraits {
        let describes_tools = mentions(source, "tools");
        let has_calls = mentions(source, "tool_calls") || mentions(source, "tool_call");
        let shown = ToolFormat::shown_in(source).filter(|_| has_calls);
        TemplateTraits {
            describes_tools,
            described_format: shown.unwrap_or(&GENERIC),
            // Without a description by the template, the prompt must ask for the format of the calls before.
            writes_calls: has_calls && (describes_tools || shown.is_some()),
            joins_arguments: false,
            tools_in_message: source.contains("message['tools']")
                || source.contains("message.tools"),
            short_ids: source.contains("length != 9") || source.contains("length < 9"),
            has_thinking: source.contains("message.thinking")
                || source.contains("message['thinking']"),
        }
    }

    /// Makes the arguments of calls texts.
    pub fn with_joined_arguments(self) -> TemplateTraits {
        TemplateTraits {
            joins_arguments: true,
            ..self
        }
    }
}

/// Returns whether messages have calls.
pub(super) fn have_calls(messages: &[Message]) -> bool {
    let mut messages = messages.iter();
    messages.any(|message| message.extra.contains_key("tool_calls"))
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
    // The tools of the calls so far, by the ids of the calls.
    let mut called = HashMap::new();
    for message in messages {
        let native = native(message, &called, traits);
        called.extend(calls_of(message));
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
                system.content += &format!("{line}{}", description(tools, traits.described_format));
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

/// Changes a conversation that a template refuses; returns whether it is another one now.
type Change = fn(&mut Vec<Message>) -> bool;

/// What is changed, one after the other, as long as a template refuses the conversation.
pub(super) const CHANGES: [Change; 3] = [
    // Some templates take a system message only in front of all others.
    put_system_first,
    // gpt-oss's takes either a thought or a text beside calls.
    join_text_to_thoughts,
    // Some templates take no system message.
    remove_system,
];

/// Makes system messages one, in front of all others.
fn put_system_first(messages: &mut Vec<Message>) -> bool {
    let is_system = |message: &Message| message.role == "system";
    if !messages.iter().skip(1).any(is_system) {
        return false;
    }
    let (system, others): (Vec<Message>, Vec<Message>) =
        std::mem::take(messages).into_iter().partition(is_system);
    let texts = system.iter().map(|message| message.content.as_str());
    let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
    let content = texts.join("\n\n");
    let first = system.into_iter().next();
    messages.extend(first.map(|first| Message { content, ..first }));
    messages.extend(others);
    true
}

/// Appends the text beside calls to the thought before it.
fn join_text_to_thoughts(messages: &mut Vec<Message>) -> bool {
    let mut is_changed = false;
    for message in messages {
        if message.extra.contains_key("tool_calls")
            && !message.content.is_empty()
            && let Some(Value::String(thought)) = message.extra.get_mut("thinking")
            && !thought.is_empty()
        {
            *thought += "\n\n";
            *thought += &std::mem::take(&mut message.content);
            is_changed = true;
        }
    }
    is_changed
}

/// Makes the text of the first message, if it is a system message, the beginning of the first user's.
fn remove_system(messages: &mut Vec<Message>) -> bool {
    if messages
        .first()
        .is_none_or(|message| message.role != "system")
    {
        return false;
    }
    let system = messages.remove(0);
    match messages.iter_mut().find(|message| message.role == "user") {
        Some(user) => user.content = format!("{}\n\n{}", system.content, user.content),
        None => messages.insert(0, Message::new("user", system.content)),
    }
    true
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

/// Returns a message with calls whose arguments are objects, as templates expect them, or texts for a template that
/// joins them.
fn native(message: &Message, called: &HashMap<&str, &Value>, traits: TemplateTraits) -> Message {
    let mut message = message.clone();
    if let Some(Value::Array(calls)) = message.extra.get_mut("tool_calls") {
        for call in calls {
            if let Some(id) = call.get_mut("id") {
                shorten(id, traits);
            }
            if let Some(arguments) = call.pointer_mut("/function/arguments") {
                adapt_arguments(arguments, traits);
            }
        }
    }
    if message.role == "tool"
        && !message.extra.contains_key("name")
        && let Some(id) = message.extra.get("tool_call_id").and_then(Value::as_str)
        && let Some(name) = called.get(id)
    {
        let name = (*name).clone();
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

/// Makes the arguments of a call an object, or a text for a template that joins them: as the model wrote it, so that the
/// prompt is what the cache has.
fn adapt_arguments(arguments: &mut Value, traits: TemplateTraits) {
    if arguments
        .as_str()
        .is_some_and(|text| text.trim().is_empty())
    {
        *arguments = "{}".into();
    }
    match arguments.as_str().map(serde_json::from_str::<Value>) {
        Some(Ok(object @ Value::Object(_))) if !traits.joins_arguments => *arguments = object,
        None if traits.joins_arguments => *arguments = arguments.to_string().into(),
        _ => {}
    }
}

/// Returns the ids of a message's calls and the names of their tools.
fn calls_of(message: &Message) -> impl Iterator<Item = (&str, &Value)> {
    let calls = message.extra.get("tool_calls").and_then(Value::as_array);
    calls.into_iter().flatten().filter_map(|call| {
        let id = call.get("id")?.as_str()?;
        Some((id, call.pointer("/function/name")?))
    })
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

/// Describes tools to a model whose template does not, and the format of calls.
fn description(tools: &Tools, format: &ToolFormat) -> String {
    let lines = tools.iter().map(|tool| {
        let mut function = tool.to_json()["function"].take();
        if let (None, Some(fields)) = (tool.description(), function.as_object_mut()) {
            fields.shift_remove("description");
        }
        format!("{function}\n")
    });
    format!(
        "You can call these functions:\n<tools>\n{}</tools>\nTo call one, answer with\n{}",
        lines.collect::<String>(),
        format.example()
    )
}

//! The tools that a request offers, in the formats of all interfaces.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use wisp_engine::{
    chat::ChatRequest,
    grammar::GrammarError,
    tools::{Tool, ToolChoice, ToolError, Tools},
};

use super::{
    error::ApiError,
    fields::{Fields, parse},
};

/// The field that says whether a tool must be called.
const CHOICE: &str = "tool_choice";

/// An interface, which has its own way to write tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// OpenAI's chat completions.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Messages,
}

impl Interface {
    /// Returns what the interface calls the type of a function.
    fn function(self) -> &'static str {
        match self {
            Interface::Chat | Interface::Responses => "function",
            Interface::Messages => "custom",
        }
    }

    /// Returns what the interface calls the schema of a function.
    fn schema(self) -> &'static str {
        match self {
            Interface::Chat | Interface::Responses => "parameters",
            Interface::Messages => "input_schema",
        }
    }
}

/// A tool as clients send it: with a function of its own in chat completions, and itself a function elsewhere.
#[derive(Deserialize)]
struct Sent {
    #[serde(rename = "type")]
    kind: Option<String>,
    function: Option<Function>,
    name: Option<String>,
    description: Option<String>,
    #[serde(default, alias = "input_schema")]
    parameters: Value,
    strict: Option<bool>,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Value,
    #[serde(default)]
    strict: Option<bool>,
}

/// What is said of calls, as clients send it.
#[derive(Deserialize)]
struct Chosen {
    #[serde(rename = "type")]
    kind: String,
    function: Option<Named>,
    name: Option<String>,
    disable_parallel_tool_use: Option<bool>,
    /// The tools that may be called, in chat completions; in responses, the fields below are the same.
    allowed_tools: Option<Allowed>,
    mode: Option<String>,
    tools: Option<Vec<AllowedTool>>,
}

/// The tools that may be called.
#[derive(Deserialize)]
struct Allowed {
    mode: String,
    tools: Vec<AllowedTool>,
}

/// A tool that may be called.
#[derive(Deserialize)]
struct AllowedTool {
    #[serde(rename = "type")]
    kind: String,
    function: Option<Named>,
    name: Option<String>,
}

/// Whether a tool must be called, and the names of those that may be, if these are not all.
struct Choice {
    choice: ToolChoice,
    allowed: Option<(&'static str, Vec<String>)>,
}

impl From<ToolChoice> for Choice {
    fn from(choice: ToolChoice) -> Choice {
        Choice {
            choice,
            allowed: None,
        }
    }
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Offers the tools of a request to the model.
///
/// # Errors
///
/// If a tool is no function (in responses and messages, such tools are left out), its name or schema is invalid, or it
/// must be called and is not offered.
pub fn offer(
    request: ChatRequest,
    fields: &Fields,
    interface: Interface,
) -> Result<ChatRequest, ApiError> {
    let tools = tools(fields, interface)?;
    let (choice, parallel) = match interface {
        Interface::Messages => {
            let (choice, parallel) = choice_of_messages(fields)?;
            (choice.into(), parallel)
        }
        _ => (
            choice(fields, interface)?,
            fields.get_or("parallel_tool_calls", true)?,
        ),
    };
    let Choice { choice, allowed } = choice;
    let offered = request.with_tools(tools, choice, parallel);
    let offered = offered.map_err(|error| ApiError::parameter(CHOICE, error.to_string()))?;
    let Some((param, names)) = allowed else {
        return Ok(offered);
    };
    let allowed = offered.with_allowed_tools(names.iter().map(String::as_str));
    allowed.map_err(|error| ApiError::parameter(param, error.to_string()))
}

/// Reads the tools of a request.
fn tools(fields: &Fields, interface: Interface) -> Result<Tools, ApiError> {
    let sent: Vec<Sent> = fields.get_or("tools", Vec::new())?;
    let mut sent: Vec<(usize, Sent)> = sent.into_iter().enumerate().collect();
    if interface != Interface::Chat {
        leave_out_others(&mut sent, interface);
    }
    let tools = sent.into_iter().map(|(at, sent)| {
        let (param, function) = function(format!("tools[{at}]"), sent, interface)?;
        let tool = Tool::new(function.name, function.parameters).map_err(|error| {
            let field = match error {
                ToolError::Name { .. } => "name",
                _ => interface.schema(),
            };
            ApiError::parameter(format!("{param}.{field}"), error.to_string())
        })?;
        let tool = tool.with_strict(function.strict == Some(true));
        Ok(match function.description {
            Some(description) => tool.with_description(description),
            None => tool,
        })
    });
    let tools: Vec<Tool> = tools.collect::<Result<_, ApiError>>()?;
    Tools::new(tools).map_err(|error| ApiError::parameter("tools", error.to_string()))
}

/// Leaves out tools that are not functions, which clients such as Codex and Claude Code offer in each request.
fn leave_out_others(tools: &mut Vec<(usize, Sent)>, interface: Interface) {
    let mut others = BTreeSet::new();
    tools.retain(|(_, tool)| match tool.kind.as_deref() {
        None => true,
        Some(kind) if kind == interface.function() => true,
        Some(kind) => {
            others.insert(kind.to_owned());
            false
        }
    });
    if !others.is_empty() {
        tracing::debug!(types = ?others, "tools that are not functions are left out");
    }
}

/// Returns the function of a tool and where it stands in the request.
fn function(
    param: String,
    sent: Sent,
    interface: Interface,
) -> Result<(String, Function), ApiError> {
    match sent.kind.as_deref() {
        Some(kind) if kind == interface.function() => {}
        None if interface == Interface::Messages => {}
        None => return Err(ApiError::missing(format!("{param}.type"))),
        Some(kind) => {
            let message = format!("a tool of type {kind} is not supported by this version");
            let param = format!("{param}.type");
            return Err(ApiError::unsupported_value(param, message));
        }
    }
    if interface == Interface::Chat {
        let param = format!("{param}.function");
        let function = sent.function.ok_or_else(|| ApiError::missing(&param))?;
        return Ok((param, function));
    }
    let missing = || ApiError::missing(format!("{param}.name"));
    let name = sent.name.ok_or_else(missing)?;
    let function = Function {
        name,
        description: sent.description,
        parameters: sent.parameters,
        // Only OpenAI's interfaces have strict tools here.
        strict: sent.strict.filter(|_| interface != Interface::Messages),
    };
    Ok((param, function))
}

/// Returns where the schemas of strict tools stand in a request, by the names of the tools.
///
/// # Errors
///
/// If the tools cannot be read.
pub fn strict(fields: &Fields, interface: Interface) -> Result<BTreeMap<String, String>, ApiError> {
    let sent: Vec<Sent> = fields.get_or("tools", Vec::new())?;
    let strict = sent.into_iter().enumerate().filter_map(|(at, sent)| {
        let (name, strict, path) = match sent.function {
            Some(function) if interface == Interface::Chat => {
                (function.name, function.strict, "function.parameters")
            }
            _ => (sent.name?, sent.strict, interface.schema()),
        };
        (strict == Some(true)).then(|| (name, format!("tools[{at}].{path}")))
    });
    Ok(strict.collect())
}

/// Returns the answer to a request with a strict tool whose schema cannot be enforced, as OpenAI names it. `paths` says
/// where the schemas of strict tools stand.
pub fn refused(tool: &str, problem: &GrammarError, paths: &BTreeMap<String, String>) -> ApiError {
    let param = paths.get(tool).map_or("tools", String::as_str);
    let message = format!(
        "invalid schema for the function {tool}, which is strict: {problem}. Without strict, its arguments may be any object"
    );
    ApiError::parameter(param, message).with_code("invalid_function_parameters")
}

/// Reads whether a tool must be called, as OpenAI's clients say it.
fn choice(fields: &Fields, interface: Interface) -> Result<Choice, ApiError> {
    let Some(json) = fields.raw(CHOICE) else {
        return Ok(ToolChoice::Auto.into());
    };
    if json.starts_with('"') {
        let word: String = parse(CHOICE, json)?;
        let problem = format!(
            "tool_choice is {word:?}, but must be none, auto, required or an object that names functions"
        );
        let choice = match word.as_str() {
            "none" => Ok(ToolChoice::None),
            word => mode(word).ok_or_else(|| ApiError::parameter(CHOICE, problem)),
        };
        return choice.map(Choice::from);
    }
    let chosen: Chosen = parse(CHOICE, json)?;
    match chosen.kind.as_str() {
        "allowed_tools" => allowed(chosen, interface),
        kind if kind == interface.function() => {
            let param = match interface {
                Interface::Chat => "tool_choice.function",
                _ => "tool_choice.name",
            };
            let name = named(chosen.function, chosen.name, interface);
            let name = name.ok_or_else(|| ApiError::missing(param))?;
            Ok(ToolChoice::Function(name).into())
        }
        kind => {
            let message = format!("a tool_choice of type {kind} is not supported by this version");
            Err(ApiError::unsupported_value("tool_choice.type", message))
        }
    }
}

/// Returns whether a call is demanded.
fn mode(word: &str) -> Option<ToolChoice> {
    match word {
        "auto" => Some(ToolChoice::Auto),
        "required" => Some(ToolChoice::Required),
        _ => None,
    }
}

/// Returns the name of a function where the interface writes it.
fn named(function: Option<Named>, name: Option<String>, interface: Interface) -> Option<String> {
    match interface {
        Interface::Chat => function.map(|function| function.name),
        _ => name,
    }
}

/// Reads the tools that may be called.
fn allowed(chosen: Chosen, interface: Interface) -> Result<Choice, ApiError> {
    let (at, list) = match interface {
        Interface::Chat => (
            "tool_choice.allowed_tools",
            "tool_choice.allowed_tools.tools",
        ),
        _ => ("tool_choice", "tool_choice.tools"),
    };
    let (word, tools) = match (interface, chosen.allowed_tools) {
        (Interface::Chat, Some(allowed)) => (allowed.mode, allowed.tools),
        (Interface::Chat, None) => return Err(ApiError::missing(at)),
        _ => {
            let word = chosen.mode;
            let word = word.ok_or_else(|| ApiError::missing(format!("{at}.mode")))?;
            let tools = chosen.tools;
            (word, tools.ok_or_else(|| ApiError::missing(list))?)
        }
    };
    let choice = mode(&word).ok_or_else(|| {
        let param = format!("{at}.mode");
        let message = format!("{param} is {word:?}, but must be auto or required");
        ApiError::parameter(param, message)
    })?;
    let names = tools.into_iter().enumerate().map(|(number, tool)| {
        let param = format!("{list}[{number}]");
        if tool.kind != interface.function() {
            let message = format!(
                "a tool of type {} is not supported by this version",
                tool.kind
            );
            let param = format!("{param}.type");
            return Err(ApiError::unsupported_value(param, message));
        }
        let field = match interface {
            Interface::Chat => "function",
            _ => "name",
        };
        let name = named(tool.function, tool.name, interface);
        name.ok_or_else(|| ApiError::missing(format!("{param}.{field}")))
    });
    let names: Vec<String> = names.collect::<Result<_, _>>()?;
    Ok(Choice {
        choice,
        allowed: Some((list, names)),
    })
}

/// Reads whether a tool must be called and whether several may be, as Anthropic's clients say it.
fn choice_of_messages(fields: &Fields) -> Result<(ToolChoice, bool), ApiError> {
    let Some(chosen) = fields.get::<Chosen>(CHOICE)? else {
        return Ok((ToolChoice::Auto, true));
    };
    let choice = match (chosen.kind.as_str(), chosen.name) {
        ("auto", _) => ToolChoice::Auto,
        ("none", _) => ToolChoice::None,
        ("any", _) => ToolChoice::Required,
        ("tool", Some(name)) => ToolChoice::Function(name),
        ("tool", None) => {
            return Err(ApiError::missing("tool_choice.name"));
        }
        (kind, _) => {
            let param = "tool_choice.type";
            let message = format!("{param} is {kind:?}, but must be auto, any, tool or none");
            return Err(ApiError::parameter(param, message));
        }
    };
    Ok((choice, chosen.disable_parallel_tool_use != Some(true)))
}

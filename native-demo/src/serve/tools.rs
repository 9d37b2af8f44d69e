//! The tools that a request offers, in the formats of all interfaces.

use serde::Deserialize;
use serde_json::Value;
use wisp_engine::{
    chat::ChatRequest,
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
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Value,
}

/// What is said of calls, as clients send it.
#[derive(Deserialize)]
struct Chosen {
    #[serde(rename = "type")]
    kind: String,
    function: Option<Named>,
    name: Option<String>,
    disable_parallel_tool_use: Option<bool>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Offers the tools of a request to the model.
///
/// # Errors
///
/// If a tool is no function, its name or schema is invalid, or it must be called and is not offered.
pub fn offer(
    request: ChatRequest,
    fields: &Fields,
    interface: Interface,
) -> Result<ChatRequest, ApiError> {
    let tools = tools(fields, interface)?;
    let (choice, parallel) = match interface {
        Interface::Messages => choice_of_messages(fields)?,
        _ => (
            choice(fields, interface)?,
            fields.get_or("parallel_tool_calls", true)?,
        ),
    };
    let offered = request.with_tools(tools, choice, parallel);
    offered.map_err(|error| ApiError::parameter(CHOICE, error.to_string()))
}

/// Reads the tools of a request.
fn tools(fields: &Fields, interface: Interface) -> Result<Tools, ApiError> {
    let sent: Vec<Sent> = fields.get_or("tools", Vec::new())?;
    let tools = sent.into_iter().enumerate().map(|(at, sent)| {
        let (param, function) = function(format!("tools[{at}]"), sent, interface)?;
        let tool = Tool::new(function.name, function.parameters).map_err(|error| {
            let field = match error {
                ToolError::Name { .. } => "name",
                _ => interface.schema(),
            };
            ApiError::parameter(format!("{param}.{field}"), error.to_string())
        })?;
        Ok(match function.description {
            Some(description) => tool.with_description(description),
            None => tool,
        })
    });
    let tools: Vec<Tool> = tools.collect::<Result<_, ApiError>>()?;
    Tools::new(tools).map_err(|error| ApiError::parameter("tools", error.to_string()))
}

/// Returns the function of a tool and where it stands in the request.
fn function(
    param: String,
    sent: Sent,
    interface: Interface,
) -> Result<(String, Function), ApiError> {
    let missing = |param: String| ApiError::parameter(&param, format!("{param} is missing"));
    match sent.kind.as_deref() {
        Some(kind) if kind == interface.function() => {}
        None if interface == Interface::Messages => {}
        None => return Err(missing(format!("{param}.type"))),
        Some(kind) => {
            let message = format!("a tool of type {kind} is not supported by this version");
            let error = ApiError::parameter(format!("{param}.type"), message);
            return Err(error.with_code("unsupported_parameter"));
        }
    }
    if interface == Interface::Chat {
        let param = format!("{param}.function");
        let function = sent.function.ok_or_else(|| missing(param.clone()))?;
        return Ok((param, function));
    }
    let name = sent.name.ok_or_else(|| missing(format!("{param}.name")))?;
    let function = Function {
        name,
        description: sent.description,
        parameters: sent.parameters,
    };
    Ok((param, function))
}

/// Reads whether a tool must be called, as OpenAI's clients say it.
fn choice(fields: &Fields, interface: Interface) -> Result<ToolChoice, ApiError> {
    let Some(json) = fields.raw(CHOICE) else {
        return Ok(ToolChoice::Auto);
    };
    if json.starts_with('"') {
        return match parse::<String>(CHOICE, json)?.as_str() {
            "none" => Ok(ToolChoice::None),
            "auto" => Ok(ToolChoice::Auto),
            "required" => Ok(ToolChoice::Required),
            other => {
                let message = format!(
                    "tool_choice is {other:?}, but must be none, auto, required or a function"
                );
                Err(ApiError::parameter(CHOICE, message))
            }
        };
    }
    let chosen: Chosen = parse(CHOICE, json)?;
    if chosen.kind != interface.function() {
        let kind = chosen.kind;
        let message = format!("a tool_choice of type {kind} is not supported by this version");
        let error = ApiError::parameter("tool_choice.type", message);
        return Err(error.with_code("unsupported_parameter"));
    }
    let (param, name) = match interface {
        Interface::Chat => (
            "tool_choice.function",
            chosen.function.map(|function| function.name),
        ),
        _ => ("tool_choice.name", chosen.name),
    };
    let name = name.ok_or_else(|| ApiError::parameter(param, format!("{param} is missing")))?;
    Ok(ToolChoice::Function(name))
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
            let param = "tool_choice.name";
            return Err(ApiError::parameter(param, format!("{param} is missing")));
        }
        (kind, _) => {
            let param = "tool_choice.type";
            let message = format!("{param} is {kind:?}, but must be auto, any, tool or none");
            return Err(ApiError::parameter(param, message));
        }
    };
    Ok((choice, chosen.disable_parallel_tool_use != Some(true)))
}

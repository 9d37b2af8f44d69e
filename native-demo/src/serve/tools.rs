//! The tools of a chat, and the ids of calls.

use serde::Deserialize;
use serde_json::Value;
use wisp_engine::tools::{Tool, ToolChoice, ToolError, Tools};

use super::{
    error::ApiError,
    fields::{Fields, parse},
};

/// A tool as clients send it.
#[derive(Deserialize)]
struct Sent {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Value,
}

/// A tool that must be called.
#[derive(Deserialize)]
struct Chosen {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    function: Option<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Reads the tools of a request.
///
/// # Errors
///
/// If one is no function, or its name or schema is invalid.
pub fn of(fields: &Fields) -> Result<Tools, ApiError> {
    let sent: Vec<Sent> = fields.get_or("tools", Vec::new())?;
    let tools = sent.into_iter().enumerate().map(|(at, sent)| {
        let param = format!("tools[{at}]");
        if sent.kind != "function" {
            let message = format!(
                "a tool of type {} is not supported by this version",
                sent.kind
            );
            let error = ApiError::parameter(format!("{param}.type"), message);
            return Err(error.with_code("unsupported_parameter"));
        }
        let param = format!("{param}.function");
        let Some(function) = sent.function else {
            return Err(ApiError::parameter(&param, format!("{param} is missing")));
        };
        let tool = Tool::new(function.name, function.parameters).map_err(|error| {
            let field = match error {
                ToolError::Name { .. } => "name",
                _ => "parameters",
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

/// Reads whether a tool must be called.
///
/// # Errors
///
/// If the value is none of OpenAI's.
pub fn choice(fields: &Fields) -> Result<ToolChoice, ApiError> {
    const NAME: &str = "tool_choice";
    let Some(json) = fields.raw(NAME) else {
        return Ok(ToolChoice::Auto);
    };
    if json.starts_with('"') {
        return match parse::<String>(NAME, json)?.as_str() {
            "none" => Ok(ToolChoice::None),
            "auto" => Ok(ToolChoice::Auto),
            "required" => Ok(ToolChoice::Required),
            other => {
                let message = format!(
                    "tool_choice is {other:?}, but must be none, auto, required or a function"
                );
                Err(ApiError::parameter(NAME, message))
            }
        };
    }
    let chosen: Chosen = parse(NAME, json)?;
    match (chosen.kind.as_str(), chosen.function) {
        ("function", Some(function)) => Ok(ToolChoice::Function(function.name)),
        ("function", None) => {
            let param = "tool_choice.function";
            Err(ApiError::parameter(param, format!("{param} is missing")))
        }
        (kind, _) => {
            let message = format!("a tool_choice of type {kind} is not supported by this version");
            let error = ApiError::parameter("tool_choice.type", message);
            Err(error.with_code("unsupported_parameter"))
        }
    }
}

/// The ids of the calls of an answer.
#[derive(Debug)]
pub struct CallIds {
    seed: u64,
}

impl CallIds {
    /// Draws ids that differ from those of other answers.
    pub fn new() -> CallIds {
        // Ids need only differ within a conversation: without random numbers, they may repeat.
        CallIds {
            seed: getrandom::u64().unwrap_or(0),
        }
    }

    /// Returns the id of a call by its number, in a text by its number.
    pub fn id(&self, text: usize, call: usize) -> String {
        let number = (text as u64) << 32 | call as u64;
        // A permutation of 64 bits (splitmix64): the last digits differ too, which some templates cut off.
        let mut mixed = self
            .seed
            .wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        format!("call_{:08x}{mixed:016x}", (self.seed >> 32) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_in_their_last_digits() {
        let ids = CallIds::new();
        let all = (0..4).flat_map(|text| (0..16).map(move |call| (text, call)));
        let tails = all.map(|(text, call)| ids.id(text, call)[20..].to_owned());
        let tails: std::collections::BTreeSet<String> = tails.collect();
        assert_eq!(tails.len(), 64);
        assert_eq!(ids.id(0, 0).len(), "call_".len() + 24);
    }
}

//! The flags that let the model call tools.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use wisp_engine::{
    Completion,
    chat::ChatRequest,
    tools::{ToolChoice, Tools},
};

use crate::commands::{read_text, shown};

/// The tools that the model may call.
#[derive(Args)]
pub struct ToolArgs {
    /// A file with tools that the model may call: a JSON list of functions as in OpenAI's interface; - is standard
    /// input. The prompt is answered as with --chat, and calls are printed as lines of JSON behind the text
    #[arg(long, value_name = "F", conflicts_with = "tokens")]
    tools: Option<PathBuf>,
    /// Whether the model must call a tool: auto, none, required, or the name of one
    #[arg(long, value_name = "CHOICE", requires = "tools", value_parser = choice)]
    tool_choice: Option<ToolChoice>,
}

/// Reads a choice. A tool that is called like one of the words cannot be named.
fn choice(text: &str) -> Result<ToolChoice, String> {
    Ok(match text {
        "" => return Err("must be auto, none, required, or the name of a tool".into()),
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "required" => ToolChoice::Required,
        name => ToolChoice::Function(name.into()),
    })
}

impl ToolArgs {
    /// Returns whether no tools are given.
    pub fn is_empty(&self) -> bool {
        self.tools.is_none()
    }

    /// Offers the tools, if any are given.
    pub fn offer(&self, request: ChatRequest) -> Result<ChatRequest> {
        let Some(path) = &self.tools else {
            return Ok(request);
        };
        let name = shown(path);
        let json: Value = serde_json::from_str(&read_text(path)?)
            .with_context(|| format!("{name} is not JSON"))?;
        let tools = Tools::from_json(&json).context(name)?;
        let choice = self.tool_choice.clone().unwrap_or_default();
        request
            .with_tools(tools, choice, true)
            .context("--tool-choice")
    }

    /// Returns the calls of an answer, each with its arguments as JSON; as text where they were cut off. `None` if no
    /// tools are given.
    pub fn calls(&self, completion: &Completion) -> Option<Vec<Value>> {
        let calls = completion.tool_calls.iter().map(|call| {
            let arguments = serde_json::from_str::<Value>(&call.arguments);
            let arguments = arguments.unwrap_or_else(|_| call.arguments.clone().into());
            json!({ "name": call.name, "arguments": arguments })
        });
        (!self.is_empty()).then(|| calls.collect())
    }
}

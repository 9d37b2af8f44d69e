//! Tools that a model may call: how they are described, and how calls are found in its text.
//!
//! Models write calls in formats of their own. [`ToolFormat::of_model`] recognises the format by the
//! chat template, and [`ToolParser`] splits the text of an answer into content and calls as it arrives.
//!
//! ```
//! use wisp_text::tools::{Tool, ToolEvent, ToolFormat, ToolParser, Tools};
//!
//! let tools = Tools::new([Tool::new("now", serde_json::Value::Null)?])?;
//! let format = ToolFormat::of_model("… <tool_call> …", |_| false);
//! let mut parser = ToolParser::new(format, tools, true);
//! assert_eq!(parser.push("Well. <tool"), [ToolEvent::Content("Well.".into())]);
//! let events = parser.push("_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>");
//! let [ToolEvent::Call(call)] = &events[..] else { panic!("{events:?}") };
//! assert_eq!((call.name.as_deref(), &*call.arguments), (Some("now"), "{}"));
//! # Ok::<(), wisp_text::tools::ToolError>(())
//! ```

mod braced;
mod braced_rules;
#[cfg(test)]
mod braced_tests;
mod call_rules;
#[cfg(test)]
mod call_tests;
mod calls;
mod format;
#[cfg(test)]
mod format_tests;
mod grammar;
#[cfg(test)]
mod grammar_tests;
mod headed_json;
mod json;
mod json_calls;
mod json_scanner;
mod parameters;
mod parser;
mod plain_text;
mod python_value;
mod pythonic;
mod rules;
mod tagged;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod thought_tests;
mod tool;

pub(crate) use call_rules::{json_call, rules_of_calls};
pub use calls::ToolEvent;
pub use format::{GENERIC, ToolFormat};
pub use grammar::{AnswerSyntax, Thought};
pub(crate) use grammar::{answer_grammar, thought_grammar};
pub use parser::ToolParser;
pub use tool::{Tool, ToolCall, ToolCallDelta, ToolChoice, ToolError, Tools};

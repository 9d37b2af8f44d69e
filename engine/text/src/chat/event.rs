//! The parts of an answer.

use crate::tools::{ToolCallDelta, ToolEvent};

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatEvent {
    /// Text of a thought.
    Reasoning(String),
    /// Text of the answer.
    Content(String),
    /// A part of a call of a tool.
    Call(ToolCallDelta),
}

impl From<ToolEvent> for ChatEvent {
    fn from(event: ToolEvent) -> ChatEvent {
        match event {
            ToolEvent::Content(text) => ChatEvent::Content(text),
            ToolEvent::Call(call) => ChatEvent::Call(call),
        }
    }
}

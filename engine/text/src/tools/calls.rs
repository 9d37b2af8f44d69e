//! What a parser makes of a model's text, in the order of the text.

use super::tool::{ToolCallDelta, Tools};

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolEvent {
    /// Text that is no call.
    Content(String),
    /// A part of a call.
    Call(ToolCallDelta),
}

/// Collects the parts of an answer.
#[derive(Debug)]
pub(super) struct Calls {
    pub tools: Tools,
    /// The most calls that are passed on; others are dropped.
    limit: usize,
    /// The number of calls that have begun.
    pub count: usize,
    events: Vec<ToolEvent>,
}

impl Calls {
    pub fn new(tools: Tools, limit: usize) -> Calls {
        Calls {
            tools,
            limit,
            count: 0,
            events: Vec::new(),
        }
    }

    /// Takes what was collected.
    pub fn take(&mut self) -> Vec<ToolEvent> {
        std::mem::take(&mut self.events)
    }

    /// Adds text that is no call.
    pub fn content(&mut self, text: &str) {
        match self.events.last_mut() {
            _ if text.is_empty() => {}
            Some(ToolEvent::Content(before)) => before.push_str(text),
            _ => self.events.push(ToolEvent::Content(text.into())),
        }
    }

    /// Begins a call of a tool.
    pub fn begin(&mut self, name: &str) {
        if self.count < self.limit {
            self.events.push(ToolEvent::Call(ToolCallDelta {
                index: self.count,
                name: Some(name.into()),
                arguments: String::new(),
            }));
        }
        self.count += 1;
    }

    /// Adds a piece of the arguments of the call that began last.
    pub fn arguments(&mut self, json: &str) {
        let index = match self.count.checked_sub(1) {
            Some(index) if index < self.limit && !json.is_empty() => index,
            _ => return,
        };
        match self.events.last_mut() {
            Some(ToolEvent::Call(call)) if call.index == index => call.arguments.push_str(json),
            _ => self.events.push(ToolEvent::Call(ToolCallDelta {
                index,
                name: None,
                arguments: json.into(),
            })),
        }
    }
}

/// What a payload is after a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// More belongs to it.
    More,
    /// The character was its last.
    Last,
    /// With this character it is no payload.
    Malformed,
}

/// The parser of a payload: what stands behind the marker of a call, one call or several.
pub(super) trait Payload: std::fmt::Debug + Send + Sync {
    /// Takes the next character.
    fn push(&mut self, character: char, calls: &mut Calls) -> Step;
}

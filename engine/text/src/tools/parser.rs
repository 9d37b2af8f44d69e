//! Finds calls in a text that arrives in pieces.

use super::calls::{Calls, Payload, Step, ToolEvent};
use super::format::ToolFormat;
use super::tool::Tools;

/// Splits a model's text into content and calls of tools, as the text arrives.
///
/// What may become a call is held back until it is clear. What looks like a call, but is malformed or
/// names no tool that is offered, stays content. A call is passed on from its first argument on: if the
/// text is cut off, so are the arguments. If it is cut off before, between the marker of a call and its arguments, what
/// has begun like a call is dropped, whatever the reason of the end: it is no text for a user.
#[derive(Debug)]
pub struct ToolParser {
    format: &'static ToolFormat,
    calls: Calls,
    state: State,
    /// The white space before what is held.
    space: String,
    /// What may become a marker.
    held: String,
    /// Whether the text so far is white space.
    at_start: bool,
    /// Whether the whole text must be calls.
    demands_call: bool,
}

#[derive(Debug)]
enum State {
    Content,
    Payload {
        payload: Box<dyn Payload>,
        /// Whether it may be a text that looks like a call: without a marker, and not behind a call.
        may_be_text: bool,
        /// The text since the white space before the marker, until a call has begun.
        text: String,
        /// The number of calls before.
        count: usize,
    },
    /// Behind a call: its end, another call or content.
    After,
}

impl ToolParser {
    /// Creates a parser of calls of these tools. Without `parallel`, only the first call is passed on.
    pub fn new(format: &'static ToolFormat, tools: Tools, parallel: bool) -> ToolParser {
        ToolParser {
            format,
            calls: Calls::new(tools, if parallel { usize::MAX } else { 1 }),
            state: State::Content,
            space: String::new(),
            held: String::new(),
            at_start: true,
            demands_call: false,
        }
    }

    /// Says whether the text must be calls. If so, what has begun like a call at its end is no content, even if it is
    /// only a part of a marker, or a call without one.
    #[must_use]
    pub fn demanding_call(mut self, is_demanded: bool) -> ToolParser {
        self.demands_call = is_demanded;
        self
    }

    /// Takes the next piece of the text and returns what is clear by now.
    pub fn push(&mut self, text: &str) -> Vec<ToolEvent> {
        text.chars().for_each(|character| self.take(character));
        self.calls.take()
    }

    /// Ends the text and returns the rest. A call that was cut off before its arguments is dropped.
    pub fn finish(&mut self) -> Vec<ToolEvent> {
        let held = self.take_held();
        match std::mem::replace(&mut self.state, State::Content) {
            // What is held may be a part of a marker.
            State::Content if !self.demands_call => self.calls.content(&held),
            State::Payload {
                text,
                may_be_text: true,
                ..
            } if !self.demands_call => self.calls.content(&text),
            // White space behind a call is no content, nor is a marker or a call that was cut off.
            State::Content | State::Payload { .. } | State::After => {}
        }
        self.calls.take()
    }

    fn take(&mut self, character: char) {
        match &mut self.state {
            State::Content | State::After => {
                self.held.push(character);
                self.search();
            }
            State::Payload {
                payload,
                text,
                count,
                ..
            } => {
                let step = payload.push(character, &mut self.calls);
                let has_begun = self.calls.count > *count;
                match step {
                    _ if has_begun => text.clear(),
                    Step::More | Step::Last => text.push(character),
                    Step::Malformed => {}
                }
                if step == Step::More {
                    return;
                }
                let text = std::mem::take(text);
                self.state = match step {
                    Step::Last if has_begun => State::After,
                    _ => State::Content,
                };
                if !has_begun {
                    self.content(&text);
                }
                if step == Step::Malformed {
                    self.take(character);
                }
            }
        }
    }

    /// Looks for markers at the beginning of what is held, and passes on what is none.
    fn search(&mut self) {
        loop {
            // White space is set apart, so that it is not read again with each character.
            let body = self.held.trim_start().len();
            let space = self.held.len() - body;
            self.space.extend(self.held.drain(..space));
            let Some(first) = self.held.chars().next() else {
                return;
            };
            let body = self.held.as_str();
            let is_after = matches!(self.state, State::After);
            if is_after && self.format.ends.contains(&body) {
                self.take_held();
                return;
            }
            if self.format.begins.contains(&body) {
                return self.begin(None);
            }
            let is_bare = self.format.bare && (is_after || self.at_start);
            if is_bare && "{[".contains(first) {
                self.held.pop();
                return self.begin(Some(first));
            }
            let ends = self.format.ends.iter().filter(|_| is_after);
            if self
                .format
                .begins
                .iter()
                .chain(ends)
                .any(|marker| marker.starts_with(body))
            {
                return;
            }
            // One character is content; what follows may be a marker.
            let rest = self.held.split_off(first.len_utf8());
            let text = self.take_held();
            self.held = rest;
            self.state = State::Content;
            self.content(&text);
        }
    }

    /// Takes what is held, with the white space before it.
    fn take_held(&mut self) -> String {
        let mut text = std::mem::take(&mut self.space);
        text.push_str(&std::mem::take(&mut self.held));
        text
    }

    /// Begins a payload behind the marker that is held, or with its first character.
    fn begin(&mut self, first: Option<char>) {
        self.state = State::Payload {
            payload: self.format.payload(&self.held),
            may_be_text: first.is_some() && !matches!(self.state, State::After),
            text: self.take_held(),
            count: self.calls.count,
        };
        self.at_start = false;
        first.into_iter().for_each(|first| self.take(first));
    }

    fn content(&mut self, text: &str) {
        self.at_start &= text.trim().is_empty();
        self.calls.content(text);
    }
}

//! Why a template cannot be compiled or rendered.

use std::time::Duration;

/// The result of everything that can stop a template.
pub type Result<T> = std::result::Result<T, Box<Fault>>;

/// A reason to stop, and the line of the template where it happened.
#[derive(Debug)]
pub struct Fault {
    pub reason: Reason,
    pub line: Option<u32>,
}

/// Why a template stops.
#[derive(Debug)]
pub enum Reason {
    /// The source is not valid Jinja.
    Syntax(String),
    /// A value has the wrong type, or a name is unknown.
    Failed(String),
    /// The template called `raise_exception`.
    Refused(String),
    /// The template takes more steps than this.
    Steps(u64),
    /// The template takes more time than this.
    Time(Duration),
    /// A value would have more bytes than this.
    ValueSize(usize),
    /// All values together would have more bytes than this.
    Memory(usize),
    /// The output would have more bytes than this.
    Output(usize),
}

impl Fault {
    /// A fault whose line is not known yet.
    pub fn new(reason: Reason) -> Box<Self> {
        Box::new(Self { reason, line: None })
    }

    /// A failure of an operation.
    pub fn failed(message: impl Into<String>) -> Box<Self> {
        Self::new(Reason::Failed(message.into()))
    }

    /// A mistake in the source.
    pub fn syntax(message: impl Into<String>, line: u32) -> Box<Self> {
        Box::new(Self {
            reason: Reason::Syntax(message.into()),
            line: Some(line),
        })
    }

    /// Returns whether an operation failed, rather than a limit was reached.
    pub fn is_failure(&self) -> bool {
        matches!(self.reason, Reason::Failed(_))
    }

    /// Sets the line, unless a more exact one is known.
    pub fn at(mut self: Box<Self>, line: u32) -> Box<Self> {
        self.line.get_or_insert(line);
        self
    }
}

/// Returns the beginning of a text from a template, for a message.
pub fn excerpt(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

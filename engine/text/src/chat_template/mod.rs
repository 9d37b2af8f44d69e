//! Chat templates: the Jinja programs of checkpoints that turn a conversation into a prompt.
//!
//! They are written for `transformers`, that is for Jinja2 in Python: a sandboxed environment with
//! `trim_blocks` and `lstrip_blocks`, loop controls, the methods of Python's strings and
//! dictionaries, `raise_exception`, `strftime_now`, a `tojson` that writes like `json.dumps` with
//! `ensure_ascii=False`, and `{% generation %}` blocks. This module provides the same with an interpreter
//! of its own.
//!
//! A template is downloaded with its model and not trusted: the number of steps, the time, the depth of
//! recursion, the memory of all values and the length of the output are limited.
//!
//! The text of messages is not trusted either. [`ControlTokens`] says whether it may contain control
//! tokens.

mod error;
mod jinja;
mod message;
mod prompt;
mod template;
#[cfg(test)]
mod tests;

pub use error::ChatTemplateError;
pub use message::Message;
pub use prompt::ControlTokens;
pub(crate) use prompt::RenderedPrompt;
pub use template::ChatTemplate;

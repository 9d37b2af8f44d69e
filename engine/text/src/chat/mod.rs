//! Chats with a model: a conversation with tools becomes a prompt, and the model's text becomes thoughts,
//! content and calls of tools.
//!
//! [`ChatRequest::prepare`] renders the conversation with the model's chat template, and chooses by the
//! template how thoughts and calls are found in the answer. Conversations with tools work with templates
//! that know no tools too: then the system message describes them.

mod answer;
#[cfg(test)]
mod channel_tests;
mod continuation;
mod effort;
mod event;
mod harmony;
mod history;
mod parser;
mod prepare;
mod request;
mod templates;
#[cfg(test)]
mod tests;

pub use answer::{answer_message, result_messages};
pub use continuation::AnswerStart;
pub use effort::ReasoningEffort;
pub use event::ChatEvent;
pub use parser::{ChatFormat, ChatParser};
pub use prepare::ChatPrompt;
pub use request::ChatRequest;
pub use templates::ChatTemplates;

//! What turns a checkpoint into text: tokenizers, chat templates, models, scheduling.

pub mod chat_template;
pub mod tokenizer;

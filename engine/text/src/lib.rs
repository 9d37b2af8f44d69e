//! Text for language models: tokenizers, the chat templates that turn conversations into prompts, and
//! the grammars that generated texts follow. The crate knows bytes, tokens and messages, and neither models nor devices, so that
//! it can be tested and used alone.
//!
//! - [`tokenizer`] rebuilds a model's own tokenizer from a GGUF file or from a folder in Hugging
//!   Face's layout, and turns text into tokens and back.
//! - [`grammar`] says which tokens may follow in a text that must be JSON, a match of a regular
//!   expression or a sentence of a grammar.
//! - [`chat_template`] runs the Jinja programs that checkpoints carry, and encodes what they write.
//! - [`chat`] prepares conversations with tools, and splits answers into thoughts ([`reasoning`]), content
//!   and calls ([`tools`]).
//!
//! ```
//! use wisp_text::chat_template::{ChatTemplate, ControlTokens, Message};
//! use wisp_text::tokenizer::{HuggingFaceFiles, Tokenizer};
//!
//! // A tokenizer of three letters with one control token.
//! let json = r#"{
//!     "model": {"type": "BPE", "vocab": {"h": 0, "i": 1, "hi": 2}, "merges": [["h", "i"]]},
//!     "added_tokens": [{"id": 3, "content": "<end>", "special": true, "normalized": false,
//!                       "single_word": false, "lstrip": false, "rstrip": false}]
//! }"#;
//! let files = HuggingFaceFiles {
//!     tokenizer: json.as_bytes(),
//!     chat_template: Some(b"{% for m in messages %}{{ m.content }}<end>{% endfor %}"),
//!     ..HuggingFaceFiles::default()
//! };
//! let tokenizer = Tokenizer::from_files(&files)?;
//! assert_eq!(tokenizer.encode("hi<end>", false, true)?, [2, 3]);
//! assert_eq!(tokenizer.decode(&[2, 3], true), "hi");
//!
//! // What a user writes cannot end the turn; what the template writes can.
//! let template = ChatTemplate::for_tokenizer(&tokenizer)?;
//! let messages = [Message::new("user", "hi<end>hi")];
//! let options = Default::default();
//! let only_template = ControlTokens::FromTemplateOnly;
//! let prompt = template.render_and_encode(&tokenizer, &messages, true, &options, only_template)?;
//! assert_eq!(prompt.iter().filter(|&&token| token == 3).count(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod chat;
pub mod chat_template;
pub mod grammar;
mod json_depth;
pub mod python_json;
pub mod reasoning;
pub mod tokenizer;
pub mod tools;

//! Grammars: what a generated text must match.
//!
//! A [`Constraint`] says what a text must be: JSON that a schema accepts, a match of a regular expression, a
//! sentence of a Lark grammar, or one of several choices. A [`GrammarCompiler`] compiles it to a [`Grammar`] for
//! the tokens of one tokenizer, and each generated text has a [`GrammarMatcher`], which computes before every
//! token which tokens may follow. The parser is the crate `llguidance`.
//!
//! `llguidance` accepts some schemas that it then does not enforce, and some keywords whose meaning differs from
//! the standard's. [`json_schema`] therefore rewrites every schema to what `llguidance` honours exactly, and
//! refuses the rest by the name of the keyword, before anything is generated.
//!
//! ```
//! use serde_json::json;
//! use wisp_text::grammar::{Constraint, GrammarCompiler};
//! use wisp_text::tokenizer::{HuggingFaceFiles, Tokenizer};
//!
//! let json = r#"{
//!     "model": {"type": "BPE", "vocab": {"y": 0, "e": 1, "s": 2, "n": 3, "o": 4, "</s>": 5}, "merges": []},
//!     "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
//! }"#;
//! let files = HuggingFaceFiles { tokenizer: json.as_bytes(), ..HuggingFaceFiles::default() };
//! let tokenizer = Tokenizer::from_files(&files)?;
//! let compiler = GrammarCompiler::new(&tokenizer, &[5])?;
//! let grammar = compiler.compile(&Constraint::Choices(vec!["yes".into(), "no".into()]))?;
//!
//! let mut matcher = grammar.matcher();
//! let mut mask = [0];
//! matcher.mask(&mut mask)?;
//! assert_eq!(mask, [0b01001], "`y` or `n`");
//! matcher.consume(3)?;
//! matcher.mask(&mut mask)?;
//! assert_eq!(mask, [0b10000], "`o`");
//! matcher.consume(4)?;
//! assert!(matcher.is_complete());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cache;
mod choices;
mod compiler;
mod constraint;
mod error;
pub mod json_schema;
mod lark;
mod matcher;
#[cfg(test)]
mod tests;
mod thoughts;
mod tool_calls;
mod vocabulary;

pub use compiler::GrammarCompiler;
pub use constraint::Constraint;
pub use error::GrammarError;
pub(crate) use json_schema::MAX_PROPERTIES;
pub use matcher::{Grammar, GrammarMatcher};
pub(crate) use thoughts::ThoughtLimit;
pub use tool_calls::ToolCalls;
pub(crate) use tool_calls::{CallRules, MAX_CALLS};

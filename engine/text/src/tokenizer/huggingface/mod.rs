//! Tokenizers from files in Hugging Face's layout.
//!
//! `tokenizer.json` is the `tokenizers` crate's own format. The other files say which tokens begin
//! and end a text, and hold the chat template.
//!
//! A `tokenizer.json` is downloaded with its model and not trusted. Its components are checked at load
//! (one that is not known is refused), the normalized text is bounded in terms of the text, and an
//! encoding has a deadline.
//!
//! Regular expressions run on a backtracking engine, which gives up after a million steps, as on a
//! megabyte of spaces, and then leaves the rest of the text in one piece: the tokens still spell the
//! text, but may differ from the model's own.

mod added_tokens;
mod backend;
mod deadline;
mod decoder;
mod files;
mod json;
mod load;
mod model;
mod normalizer;
mod older_tokens;
mod pattern;
mod post_processor;
mod pre_tokenizer;
mod precompiled;

pub use files::HuggingFaceFiles;
pub(super) use load::load;
#[cfg(not(target_arch = "wasm32"))]
pub(super) use load::load_directory;

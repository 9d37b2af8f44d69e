//! Tokenizers from files in Hugging Face's layout.
//!
//! `tokenizer.json` is the `tokenizers` crate's own format. The other files say which tokens begin
//! and end a text, and hold the chat template.
//!
//! The crate runs the regular expressions of a `tokenizer.json` on a backtracking engine, which gives
//! up after a million steps, as on a megabyte of spaces, and then leaves the rest of the text in one
//! piece: the tokens still spell the text, but may differ from the model's own.

mod added_tokens;
mod backend;
mod decoder;
mod files;
mod load;
mod validate;

pub use files::HuggingFaceFiles;
pub(super) use load::load;
#[cfg(not(target_arch = "wasm32"))]
pub(super) use load::load_directory;

//! GGUF, ggml's checkpoint format: one reader of headers for files, memory and streams, and a writer.
//!
//! Follows the specification in ggml's `docs/gguf.md`, versions 1 to 3, in both byte orders. The byte order
//! of a file is the one in which its version is a small number. Keys and the names of tensors must be
//! UTF-8. String *values* need not be, because vocabularies may hold parts of characters: bytes that are
//! not UTF-8 become U+FFFD.
//!
//! ```
//! use wisp_weights::gguf::{Gguf, GgufHeaderBuilder, Value};
//!
//! # fn main() -> Result<(), wisp_weights::FormatError> {
//! let mut header = GgufHeaderBuilder::default();
//! header.key("general.architecture", Value::String("llama".into()));
//! header.key("llama.block_count", Value::U32(2));
//! let gguf = Gguf::parse(&header.bytes())?;
//! assert_eq!(gguf.require::<&str>("general.architecture")?, "llama");
//! // Numbers convert between types where that loses nothing.
//! assert_eq!(gguf.require::<usize>("llama.block_count")?, 2);
//! let error = gguf.require::<u32>("general.architecture").unwrap_err();
//! assert!(error.to_string().contains(r#"is the string "llama"; expected an integer"#));
//! # Ok(())
//! # }
//! ```

mod byte_order;
mod convert;
mod cursor;
mod ggml_type;
mod header;
mod reader;
mod state;
mod strings;
mod tensor_infos;
mod value;
mod value_type;
mod values;
mod writer;

pub use convert::FromValue;
pub use cursor::Limits;
pub use header::Gguf;
pub use reader::{GgufReader, Progress};
pub use strings::Strings;
pub use value::{Array, Value};
pub use writer::GgufHeaderBuilder;

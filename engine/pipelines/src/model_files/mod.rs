//! A model's files, opened together: weights, configuration, tokenizer.
//!
//! What they say is known before anything is loaded to a device:
//!
//! ```no_run
//! use wisp_pipelines::{ModelFiles, chat_template::Message};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let files = ModelFiles::open("model.gguf".as_ref())?;
//! println!("a {} model", files.model_spec.architecture.name());
//! let tokenizer = files.tokenizer.as_ref().map_err(|error| error.to_string())?;
//! let tokens = tokenizer.encode("A riddle, please!", false, false)?;
//! assert_eq!(tokenizer.decode(&tokens, true), "A riddle, please!");
//! let prompt = files.chat_prompt(&[Message::new("user", "A riddle, please!")])?;
//! assert!(prompt.len() > tokens.len());
//! # Ok(())
//! # }
//! ```

mod chat_prompt;
#[cfg(not(target_arch = "wasm32"))]
mod companions;
mod dense;
mod error;
mod files;
mod gguf_tokenizer;
mod sampling_defaults;
mod sentence_transformer;
mod stop_tokens;

pub(crate) use chat_prompt::prepare_chat;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use companions::{COMPANIONS, PYTORCH_INDEX, SAFETENSORS_INDEX};
pub use dense::Dense;
pub use error::ModelFilesError;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use files::MODELOPT_CONFIG;
pub use files::ModelFiles;
#[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
pub(crate) use files::{read_config, read_generation_config};
pub use gguf_tokenizer::tokenizer;
pub use sampling_defaults::SamplingDefaults;
pub use sentence_transformer::SentenceTransformer;
#[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
pub(crate) use stop_tokens::stop_tokens;

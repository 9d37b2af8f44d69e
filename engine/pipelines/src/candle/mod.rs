//! The engine `huggingface`: architectures that Wisp lacks, through Hugging Face's candle on the CPU.
//!
//! A [`CandleModel`] is a [`PipelineModel`](crate::PipelineModel) for one sequence at a time: candle's
//! models hold the state of a single sequence and compute the logits of its last token.
//! [`TextGenerator`](crate::TextGenerator) generates with it as with any other model.

pub(crate) mod architectures;
mod config;
pub(crate) mod error;
mod files;
mod model;
mod pipeline;
mod unsupported;
mod weights;

pub use architectures::{CANDLE_ARCHITECTURES, CandleArchitecture, is_supported};
pub use error::CandleError;
pub use files::CandleFiles;
pub use model::CandleModel;

//! Conversion of checkpoints: to GGUF in any encoding that Wisp quantizes to, or to safetensors.
//!
//! Tensor names come from the architecture, which has them for Hugging Face's layout and for GGUF,
//! and sizes from its [spec](crate::spec::DecoderSpec). A new file is read back before it gets its
//! final name, and must describe the same model. (GGUF has one epsilon for all norms: the norms in latent
//! attention may change theirs by up to 1e-5, which the report notes.)
//!
//! ```no_run
//! use std::ops::ControlFlow;
//! use wisp_pipelines::{ModelFiles, convert::{ConvertOptions, to_gguf}};
//! use wisp_weights::Encoding;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let files = ModelFiles::open("model.gguf".as_ref())?;
//! let options = ConvertOptions::default().encoding(Encoding::Q8_0);
//! let report = to_gguf(&files, "model-q8_0.gguf".as_ref(), options, &mut |_done, _total| ControlFlow::Continue(()))?;
//! println!("relative error {}", report.total.relative_error());
//! # Ok(())
//! # }
//! ```

mod error;
mod gguf;
mod options;
mod planned_tensor;
mod report;
mod safetensors;
mod tensor_data;
mod tokenizer;

pub use error::ConvertError;
pub use gguf::to_gguf;
pub use options::{ConvertOptions, OnProgress};
pub use report::{ConvertReport, TensorStats};
pub use safetensors::to_safetensors;

//! Architectures: how checkpoints map to a [`DecoderSpec`](crate::spec::DecoderSpec).
//!
//! Each built-in architecture is one short file that says how it differs from Llama or from
//! another: the mapping of `config.json` and of GGUF metadata, tensor names, and what conversion to
//! GGUF needs. To add one, write its file under `builtin` and its row in `builtin/mod.rs`.
//!
//! Programs can [register](register_architecture) further ones while they run. Checkpoints of these
//! load, convert and are listed like those of built-in ones:
//!
//! ```
//! use wisp_pipelines::{
//!     architectures::{Architecture, ModelSpec, register_architecture},
//!     spec::{NormPlacement, TensorNames},
//! };
//!
//! let mut names = TensorNames::hugging_face();
//! names.prefixes = vec!["transformer.".into()];
//! names.embedding = "tokens".into();
//!
//! // Llama, but with norms on both sides of attention and feed-forward, and a field of another name.
//! let mine = Architecture::new("mine")
//!     .config_classes(["MineForCausalLM"])
//!     .config_defaults(r#"{"vocab_size": 512, "num_attention_heads": 4, "num_hidden_layers": 2}"#)
//!     .config_key("hidden_size", "model_width")
//!     .tensor_names(names)
//!     .spec_from_config(|config| {
//!         let mut spec = config.decoder_spec()?;
//!         spec.norm_placement = NormPlacement::Sandwich;
//!         spec.logit_softcap = config.f32_or("logit_cap", 0.0)?;
//!         Ok(spec)
//!     });
//! register_architecture(mine)?;
//!
//! let config = r#"{"architectures": ["MineForCausalLM"], "model_width": 64, "logit_cap": 30.0}"#;
//! let model = ModelSpec::from_config(config)?;
//! assert_eq!(model.architecture.name(), "mine");
//! assert_eq!((model.spec.hidden_size, model.spec.logit_softcap), (64, 30.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod architecture;
mod builtin;
mod error;
mod gguf_metadata;
mod hf_config;
mod recognition;
mod registry;
#[cfg(test)]
mod tests;

pub use architecture::Architecture;
pub use error::{ArchitectureError, RegisterError};
pub use gguf_metadata::GgufMetadata;
pub use hf_config::{HfConfig, LayerType};
pub use recognition::ModelSpec;
pub use registry::{all, find, register_architecture};

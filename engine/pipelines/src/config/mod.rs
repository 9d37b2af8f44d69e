//! How a model is loaded and run: [`PipelineConfig`], after MAX's class of that name.
//!
//! The name, range, default and description of each field are in one table, [`FIELDS`], from which a
//! program can make its flags and its help. A configuration may come from several [`Layer`]s, such
//! as flags, the environment and a TOML file:
//!
//! ```
//! use wisp_pipelines::config::{Layer, PipelineConfig};
//!
//! let file = Layer::toml("wisp.toml", "max_length = 2048\ncache_strategy = \"paged\"")?;
//! let mut flags = Layer::new("the command line");
//! flags.set("max_length", 4096.into())?;
//! let config = PipelineConfig::from_layers(&[&flags, &file])?;
//! assert_eq!(config.max_length, 4096);
//! assert_eq!(config.cache_strategy.name(), "paged");
//! assert_eq!(config.max_num_steps, PipelineConfig::default().max_num_steps);
//!
//! let error = Layer::toml("wisp.toml", "max_lenght = 2048").unwrap_err();
//! assert!(error.to_string().starts_with("wisp.toml: there is no field \"max_lenght\""));
//! # Ok::<(), wisp_pipelines::config::ConfigError>(())
//! ```

mod choices;
mod error;
mod fields;
mod hub_address;
mod layer;
mod limits;
mod overrides;
mod pipeline_config;
mod tuning;
mod unsupported;
mod values;

pub use choices::{
    CacheStrategy, KvCacheFormat, LayerEmbeddingsPlacement, PipelineEngine, RopeType,
};
pub use error::ConfigError;
pub use fields::{FIELDS, Field, FieldGroup, FieldKind};
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use hub_address::without_address;
pub use layer::Layer;
pub use pipeline_config::PipelineConfig;
pub use tuning::TuningSource;
pub use wisp_session::Precision;
pub use wisp_types::UnknownChoice;

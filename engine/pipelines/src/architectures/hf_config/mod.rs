//! Hugging Face's `config.json`, as transformers 4 and 5 write it.

mod fields;
mod mamba;
mod rope;
mod spec;

pub use fields::HfConfig;
pub use rope::LayerType;

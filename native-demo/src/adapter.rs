//! Low-rank adapters: which of those that the settings name is used.

use anyhow::{Result, bail};
use clap::Args;
use wisp_engine::{Model, pipelines::LoraError};

/// Which adapter changes the model.
#[derive(Args)]
pub struct AdapterArgs {
    /// The name of the adapter to use, where --lora names several
    #[arg(long, value_name = "NAME")]
    adapter: Option<String>,
}

impl AdapterArgs {
    /// The name of the one that is asked for, or else the only one; `None` if there are none.
    pub fn choose(&self, model: &Model) -> Result<Option<String>> {
        let mut loaded = model.adapters()?;
        match &self.adapter {
            Some(name) if loaded.contains(name) => Ok(Some(name.clone())),
            Some(_) if loaded.is_empty() => bail!(
                "no adapter is loaded: name those to load with --lora, or make room for them with \
                 --max-num-loras"
            ),
            Some(name) => {
                let name = name.clone();
                Err(LoraError::Nonexistent { name, loaded }.into())
            }
            None if loaded.len() > 1 => bail!(
                "there are several adapters: choose one with --adapter: {}",
                loaded.join(", ")
            ),
            None => Ok(loaded.pop()),
        }
    }
}

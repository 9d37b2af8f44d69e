//! The choice among the LoRA adapters that the settings load.

use anyhow::{Result, bail};
use clap::Args;
use wisp_engine::{Model, pipelines::LoraError};

/// The flag that selects an adapter.
#[derive(Args)]
pub struct AdapterArgs {
    /// The name of the adapter to use if --lora loads several
    #[arg(long, value_name = "NAME")]
    adapter: Option<String>,
}

impl AdapterArgs {
    /// Returns the name of the selected adapter, or of the only one; `None` if none is loaded.
    ///
    /// # Errors
    ///
    /// If the selected adapter is not loaded, or if several are loaded and none is selected.
    pub fn choose(&self, model: &Model) -> Result<Option<String>> {
        let mut loaded = model.adapters()?;
        match &self.adapter {
            Some(name) if loaded.contains(name) => Ok(Some(name.clone())),
            Some(_) if loaded.is_empty() => bail!(
                "no adapters are loaded: load some with --lora, or reserve memory for them with \
                 --max-num-loras"
            ),
            Some(name) => {
                let name = name.clone();
                Err(LoraError::Nonexistent { name, loaded }.into())
            }
            None if loaded.len() > 1 => bail!(
                "several adapters are loaded: choose one with --adapter: {}",
                loaded.join(", ")
            ),
            None => Ok(loaded.pop()),
        }
    }
}

//! Low-rank adapters: those of the settings are loaded, and one of them is chosen.

use anyhow::{Context, Result, bail};
use clap::Args;
use wisp_engine::pipelines::{
    AdapterFiles, LoraManager, PipelineConfig, text_generation::TextGenerator,
};

/// Which adapter changes the model.
#[derive(Args)]
pub struct AdapterArgs {
    /// The name of the adapter to use, where --lora names several
    #[arg(long, value_name = "NAME")]
    adapter: Option<String>,
}

impl AdapterArgs {
    /// The name that is asked for.
    #[cfg(feature = "candle")]
    pub fn name(&self) -> Option<&str> {
        self.adapter.as_deref()
    }

    /// The name of the one that is asked for, or else the only one; `None` if there are none.
    pub fn choose(&self, generator: &TextGenerator) -> Result<Option<String>> {
        if let Some(name) = &self.adapter {
            generator.adapter(name)?;
            return Ok(Some(name.clone()));
        }
        let loras = generator.lora_manager().map(LoraManager::loras);
        let names: Vec<String> = loras.into_iter().flatten().map(String::from).collect();
        match names.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            several => bail!(
                "there are several adapters: choose one with --adapter: {}",
                several.join(", ")
            ),
        }
    }
}

/// Loads the adapters that the settings name.
pub fn load(config: &PipelineConfig, generator: &mut TextGenerator) -> Result<()> {
    for (name, path) in config.adapters() {
        let files = AdapterFiles::open(path.as_ref());
        let loaded = files.and_then(|files| generator.load_adapter(name, &files));
        loaded.with_context(|| format!("adapter {name}"))?;
    }
    Ok(())
}

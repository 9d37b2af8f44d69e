//! Low-rank adapters (LoRA) of a model.

use wisp_pipelines::{AdapterFiles, LoraManager};

use crate::{error::Error, model::Model, worker::Command};

impl Model {
    /// Returns the names of the loaded low-rank adapters.
    ///
    /// # Errors
    ///
    /// If the model is an encoder.
    pub async fn adapters_async(&self) -> Result<Vec<String>, Error> {
        let work = self.run_as(Command::BetweenSteps, move |generator| {
            let loras = generator.lora_manager().map(LoraManager::loras);
            let names = loras.into_iter().flatten().map(String::from).collect();
            Box::pin(async move { Ok(names) })
        });
        work.await
    }

    /// Like [`Self::adapters_async`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::adapters_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn adapters(&self) -> Result<Vec<String>, Error> {
        pollster::block_on(self.adapters_async())
    }

    /// Loads a low-rank adapter under a name by which requests can [use it](crate::Generate::adapter). Running requests
    /// go on. If all room is taken by adapters that were unloaded, this waits until one of them has no requests.
    ///
    /// # Errors
    ///
    /// If the name is taken, the model has no room for adapters
    /// ([`ModelBuilder::adapters`](crate::ModelBuilder::adapters)), or the adapter does not fit it.
    pub async fn load_adapter_async(&self, name: &str, files: AdapterFiles) -> Result<(), Error> {
        let name = name.to_string();
        let work = self.run_as(Command::LoadAdapter, move |generator| {
            Box::pin(async move { Ok(generator.load_adapter(&name, &files)?) })
        });
        work.await
    }

    /// Like [`Self::load_adapter_async`], but reads the adapter from a folder in PEFT's layout and
    /// blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::load_adapter_async`], and if the folder cannot be read.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn load_adapter(
        &self,
        name: &str,
        folder: impl AsRef<std::path::Path>,
    ) -> Result<(), Error> {
        let files = AdapterFiles::open(folder.as_ref())?;
        pollster::block_on(self.load_adapter_async(name, files))
    }

    /// Unloads an adapter: new requests cannot use it. Running and waiting requests keep it, and its room becomes free
    /// when the last of them has ended.
    ///
    /// # Errors
    ///
    /// If no adapter of that name is loaded.
    pub async fn unload_adapter_async(&self, name: &str) -> Result<(), Error> {
        let name = name.to_string();
        let work = self.run_as(Command::BetweenSteps, move |generator| {
            Box::pin(async move { Ok(generator.unload_adapter(&name)?) })
        });
        work.await
    }

    /// Like [`Self::unload_adapter_async`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::unload_adapter_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn unload_adapter(&self, name: &str) -> Result<(), Error> {
        pollster::block_on(self.unload_adapter_async(name))
    }
}

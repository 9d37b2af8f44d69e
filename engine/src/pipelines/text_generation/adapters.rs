//! Adapters of a model that generates: loaded and unloaded between steps, while requests run.

use super::{Adapter, LoraError, LoraManager, TextGenerator};
use crate::pipelines::lora::AdapterFiles;

impl TextGenerator {
    /// The adapters, if the model has room for them.
    pub fn lora_manager(&self) -> Option<&LoraManager> {
        self.loras.as_ref()
    }

    /// The adapter of a name, for requests.
    ///
    /// # Errors
    ///
    /// If none of that name is loaded.
    pub fn adapter(&self, name: &str) -> Result<Adapter, LoraError> {
        self.loras.as_ref().ok_or(LoraError::Disabled)?.get(name)
    }

    /// Loads an adapter under a name, from which on requests can have it.
    ///
    /// # Errors
    ///
    /// If the name is taken, there is no room, the adapter does not fit the model, or the device fails;
    /// [`LoraError::status`] is what MAX calls it. Then it is as if it was never asked for.
    pub fn load_adapter(&mut self, name: &str, files: &AdapterFiles) -> Result<(), LoraError> {
        let loras = self.loras.as_mut().ok_or(LoraError::Disabled)?;
        let slot = loras.place(name, |slot| self.scheduler.uses_adapter(slot))?;
        // Loaded anew, it may be another: nothing that an earlier one left in the cache is its own.
        let number = self.scheduler.new_beginning();
        loras.load(&self.model, name, files, Adapter { slot, number })
    }

    /// Unloads an adapter: no new request can have it. Those that have it go on with it, and its place
    /// is free when the last of them has ended.
    ///
    /// # Errors
    ///
    /// If none of that name is loaded.
    pub fn unload_adapter(&mut self, name: &str) -> Result<(), LoraError> {
        let nonexistent = || LoraError::Nonexistent {
            name: name.into(),
            loaded: Vec::new(),
        };
        self.loras.as_mut().ok_or_else(nonexistent)?.unload(name)
    }

    /// Refuses an adapter that was unloaded since it was named.
    pub(super) fn check_adapter(&self, adapter: Adapter) -> Result<(), LoraError> {
        let loras = self.loras.as_ref().ok_or(LoraError::Disabled)?;
        loras
            .is_loaded(adapter)
            .then_some(())
            .ok_or(LoraError::Unloaded)
    }
}

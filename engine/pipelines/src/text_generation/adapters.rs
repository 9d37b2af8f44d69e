//! Adapters of a model that generates: loaded and unloaded between steps, while requests run.

use super::{Adapter, LoraError, LoraManager, PipelineModel, TextGenerator};
use crate::lora::AdapterFiles;

impl TextGenerator {
    /// The adapters, if the model has room for them.
    pub fn lora_manager(&self) -> Option<&LoraManager> {
        self.model.lora_manager()
    }

    /// The adapter of a name, for requests.
    ///
    /// # Errors
    ///
    /// If none of that name is loaded.
    pub fn adapter(&self, name: &str) -> Result<Adapter, LoraError> {
        self.lora_manager().ok_or(LoraError::Disabled)?.get(name)
    }

    /// Loads an adapter under a name, from which on requests can have it.
    ///
    /// # Errors
    ///
    /// If the name is taken, there is no room, the adapter does not fit the model, or the device fails;
    /// [`LoraError::status`] is what MAX calls it. Then it is as if it was never asked for.
    pub fn load_adapter(&mut self, name: &str, files: &AdapterFiles) -> Result<(), LoraError> {
        // Loaded anew, it may be another: nothing that an earlier one left in the cache is its own.
        let number = self.scheduler.new_cache_salt();
        let is_used = |slot| self.scheduler.uses_adapter(slot);
        self.model.load_adapter(name, files, number, is_used)
    }

    /// Unloads an adapter: no new request can have it. Those that have it go on with it, and its place
    /// is free when the last of them has ended.
    ///
    /// # Errors
    ///
    /// If none of that name is loaded.
    pub fn unload_adapter(&mut self, name: &str) -> Result<(), LoraError> {
        self.model.unload_adapter(name)
    }

    /// Refuses an adapter that was unloaded since it was named.
    pub(super) fn check_adapter(&self, adapter: Adapter) -> Result<(), LoraError> {
        let loras = self.lora_manager().ok_or(LoraError::Disabled)?;
        loras
            .is_loaded(adapter)
            .then_some(())
            .ok_or(LoraError::Unloaded)
    }
}

//! Low-rank adapters of a generating model: loaded and unloaded between steps, while requests run.

use super::TextGenerator;
use crate::{Adapter, AdapterFiles, LoraError, LoraManager};

impl TextGenerator {
    /// The loaded adapters; `None` where the model has no room for any.
    pub fn lora_manager(&self) -> Option<&LoraManager> {
        self.model().lora_manager()
    }

    /// The adapter of a name, for requests.
    ///
    /// # Errors
    ///
    /// If no adapter of that name is loaded.
    pub fn adapter(&self, name: &str) -> Result<Adapter, LoraError> {
        self.lora_manager().ok_or(LoraError::Disabled)?.get(name)
    }

    /// Loads an adapter under a name, after which requests can use it.
    ///
    /// # Errors
    ///
    /// If the name is taken, no slot is free, the adapter does not fit the model, or the device fails;
    /// [`LoraError::status`] is MAX's name for it. Then nothing has changed.
    pub fn load_adapter(&mut self, name: &str, files: &AdapterFiles) -> Result<(), LoraError> {
        // An adapter that is loaded again may be another one: it shares no pages with its forerunner.
        let salt = self.scheduler.new_cache_salt();
        let in_use = |slot| self.scheduler.uses_adapter(slot);
        self.runner.model.load_adapter(name, files, salt, &in_use)?;
        Ok(())
    }

    /// Unloads an adapter: no new request can use it. Requests that have it keep it, and its slot is
    /// free when the last of them has ended.
    ///
    /// # Errors
    ///
    /// If no adapter of that name is loaded.
    pub fn unload_adapter(&mut self, name: &str) -> Result<(), LoraError> {
        self.runner.model.unload_adapter(name)
    }

    /// Refuses an adapter that was unloaded since it was looked up.
    pub(super) fn check_adapter(&self, adapter: Adapter) -> Result<(), LoraError> {
        let loras = self.lora_manager().ok_or(LoraError::Disabled)?;
        match loras.is_loaded(adapter) {
            true => Ok(()),
            false => Err(LoraError::Unloaded),
        }
    }
}

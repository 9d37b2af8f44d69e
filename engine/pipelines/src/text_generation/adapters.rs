//! Low-rank adapters of a generator: loaded and unloaded between steps, while requests run.

use super::TextGenerator;
use crate::{Adapter, AdapterFiles, LoraError, LoraManager};

impl TextGenerator {
    /// Returns the loaded adapters; `None` if the model was loaded without memory for adapters.
    pub fn lora_manager(&self) -> Option<&LoraManager> {
        self.model().lora_manager()
    }

    /// Returns the adapter of this name, for requests.
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
    /// [`LoraError::status`] is MAX's name for the error. The loaded adapters are then unchanged.
    pub fn load_adapter(&mut self, name: &str, files: &AdapterFiles) -> Result<(), LoraError> {
        // An adapter that is loaded again may have other weights, so it shares no pages with its
        // predecessor.
        let salt = self.scheduler.new_cache_salt();
        let in_use = |slot| self.scheduler.uses_adapter(slot);
        self.runner.model.load_adapter(name, files, salt, &in_use)?;
        Ok(())
    }

    /// Unloads an adapter: new requests cannot use it. Requests that already use it keep it, and its
    /// slot becomes free when the last of them has ended.
    ///
    /// # Errors
    ///
    /// If no adapter of that name is loaded.
    pub fn unload_adapter(&mut self, name: &str) -> Result<(), LoraError> {
        self.runner.model.unload_adapter(name)
    }

    /// Returns whether an adapter can be loaded only after requests have ended: the slots that no loaded adapter has are
    /// those of adapters that were unloaded while requests use them.
    pub fn awaits_adapter_slot(&self) -> bool {
        let in_use = |slot| self.scheduler.uses_adapter(slot);
        self.lora_manager()
            .is_some_and(|loras| loras.awaits_slot(in_use))
    }

    /// Rejects an adapter that was unloaded after it was looked up.
    pub(super) fn check_adapter(&self, adapter: Adapter) -> Result<(), LoraError> {
        let loras = self.lora_manager().ok_or(LoraError::Disabled)?;
        match loras.is_loaded(adapter) {
            true => Ok(()),
            false => Err(LoraError::Unloaded),
        }
    }
}

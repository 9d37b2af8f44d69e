//! The decoder's adapters.

use super::DecoderModel;
use crate::lora::{Adapter, AdapterFiles, LoraError};

impl DecoderModel {
    /// Loads an adapter under a name, whose sequences' prefixes begin with a number of their own.
    /// `is_used` tells whether a sequence still has the one in a place.
    ///
    /// # Errors
    ///
    /// As [`super::super::text_generation::TextGenerator::load_adapter`].
    pub fn load_adapter(
        &mut self,
        name: &str,
        files: &AdapterFiles,
        number: u64,
        is_used: impl Fn(u32) -> bool,
    ) -> Result<(), LoraError> {
        let loras = self.loras.as_mut().ok_or(LoraError::Disabled)?;
        let slot = loras.place(name, is_used)?;
        loras.load(&self.decoder, name, files, Adapter { slot, number })
    }

    /// Forgets the name of an adapter.
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
}

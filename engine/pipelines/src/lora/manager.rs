//! The adapters of a model.

use std::collections::BTreeMap;

use wisp_session::Model;

use super::{
    adapter::Adapter, error::LoraError, files::AdapterFiles, modules::Modules, pack, plan,
};
use crate::{
    architectures::ModelSpec,
    spec::{DecoderSpec, LoraLayout},
};

/// The adapters of a model that has buffers for them.
#[derive(Debug)]
pub struct LoraManager {
    layout: LoraLayout,
    spec: DecoderSpec,
    modules: Modules,
    /// The architecture, if the checkpoint's weights are multiplied by the model's factors.
    scaled: Option<String>,
    loaded: BTreeMap<String, Adapter>,
}

impl LoraManager {
    /// Makes the manager of a model with buffers of this size, in which no adapter is loaded yet.
    pub(crate) fn new(model_spec: &ModelSpec, layout: LoraLayout) -> LoraManager {
        LoraManager {
            layout,
            spec: model_spec.spec.clone(),
            modules: Modules::new(model_spec),
            scaled: model_spec
                .has_scaled_weights()
                .then(|| model_spec.architecture.name().to_string()),
            loaded: BTreeMap::new(),
        }
    }

    /// The names of the loaded adapters, in alphabetical order.
    pub fn loras(&self) -> impl Iterator<Item = &str> {
        self.loaded.keys().map(String::as_str)
    }

    /// True if an adapter of this name is loaded.
    pub fn is_lora(&self, name: &str) -> bool {
        self.loaded.contains_key(name)
    }

    /// The number of adapters that can be loaded at the same time.
    pub fn max_num_loras(&self) -> u64 {
        self.layout.slots
    }

    /// The highest rank that an adapter may have.
    pub fn max_lora_rank(&self) -> u64 {
        self.layout.rank
    }

    /// Returns the adapter of a name, for requests.
    ///
    /// # Errors
    ///
    /// If no adapter of the name is loaded.
    pub fn get(&self, name: &str) -> Result<Adapter, LoraError> {
        let found = self.loaded.get(name).copied();
        found.ok_or_else(|| LoraError::Nonexistent {
            name: name.into(),
            loaded: self.loras().map(String::from).collect(),
        })
    }

    /// True if the adapter has not been unloaded.
    pub(crate) fn is_loaded(&self, adapter: Adapter) -> bool {
        self.loaded.values().any(|other| *other == adapter)
    }

    /// Returns a free slot for an adapter: one that no loaded adapter has and no running sequence
    /// uses.
    ///
    /// # Errors
    ///
    /// If the name is taken, no slot is free, or no adapter fits the checkpoint.
    pub(crate) fn place(&self, name: &str, in_use: impl Fn(u32) -> bool) -> Result<u32, LoraError> {
        if self.is_lora(name) {
            return Err(LoraError::NameExists { name: name.into() });
        }
        if let Some(architecture) = &self.scaled {
            return Err(LoraError::ScaledWeights {
                architecture: architecture.clone(),
            });
        }
        self.free_slot(in_use).ok_or_else(|| LoraError::Full {
            slots: self.layout.slots,
            loaded: self.loras().map(String::from).collect(),
        })
    }

    fn free_slot(&self, in_use: impl Fn(u32) -> bool) -> Option<u32> {
        let is_free = |slot: &u32| {
            !in_use(*slot) && self.loaded.values().all(|adapter| adapter.slot != *slot)
        };
        (0..self.layout.slots as u32).find(is_free)
    }

    /// Returns whether running sequences use all slots that no loaded adapter has.
    pub(crate) fn awaits_slot(&self, in_use: impl Fn(u32) -> bool) -> bool {
        (self.loaded.len() as u64) < self.layout.slots && self.free_slot(in_use).is_none()
    }

    /// Writes an adapter's weights to its slot.
    ///
    /// # Errors
    ///
    /// If the adapter does not fit the model, or the device fails. Then it is not loaded.
    pub(crate) fn load(
        &mut self,
        decoder: &Model,
        name: &str,
        files: &AdapterFiles,
        adapter: Adapter,
    ) -> Result<(), LoraError> {
        let plan = plan::plan(files, &self.modules, &self.spec, self.layout)?;
        pack::write(files, &plan, &self.spec, self.layout, |buffer, weights| {
            let start = u64::from(adapter.slot).saturating_mul(weights.len() as u64);
            Ok(decoder.write_at(buffer, start, weights)?)
        })?;
        self.loaded.insert(name.into(), adapter);
        Ok(())
    }

    /// Removes the name of an adapter, so that no new request can have it.
    ///
    /// # Errors
    ///
    /// If no adapter of the name is loaded.
    pub(crate) fn unload(&mut self, name: &str) -> Result<(), LoraError> {
        self.get(name)?;
        self.loaded.remove(name);
        Ok(())
    }
}

//! Low-rank adapters (LoRA, Hu et al. 2021), after MAX's `max.pipelines.lora`: several at once, each
//! request of a batch with its own or none.
//!
//! An adapter adds `scale * B A` to the weight of some projections. Those that are loaded stand in
//! buffers of the decoder's program, padded with zeros to one rank; a sequence names its adapter, and
//! two kernels compute `B (A x)` beside each projection. The base model's weights stay as they are, in
//! whatever encoding.
//!
//! A model has room for adapters if [`super::ModelLimits::max_num_loras`] says so; they are loaded and
//! unloaded by [`super::text_generation::TextGenerator`] while requests run. An adapter that is unloaded
//! goes on for the requests that have it and cannot be named by new ones; its place is free when the
//! last of them ends.

mod adapter_config;
mod error;
mod files;
mod modules;
mod pack;

use std::collections::BTreeMap;

use super::{
    architectures::ModelSpec,
    spec::{DecoderSpec, LoraLayout},
};
use wisp_session::Model;

pub use error::{LoraError, LoraStatus};
pub use files::AdapterFiles;
use modules::Modules;

/// An adapter that was loaded. It stays the same one's: under no other will a name, loaded anew, be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// Its place in the device's buffers.
    pub(super) slot: u32,
    /// Where the prefixes of its sequences begin: no other adapter has had it.
    pub(super) number: u64,
}

/// The adapters of a model.
#[derive(Debug)]
pub struct LoraManager {
    layout: LoraLayout,
    spec: DecoderSpec,
    modules: Modules,
    loaded: BTreeMap<String, Adapter>,
}

impl LoraManager {
    /// A manager of the adapters of a model with room for them.
    pub(super) fn new(model_spec: &ModelSpec, layout: LoraLayout) -> LoraManager {
        LoraManager {
            layout,
            spec: model_spec.spec.clone(),
            modules: Modules::of(model_spec),
            loaded: BTreeMap::new(),
        }
    }

    /// The names of the adapters that are loaded.
    pub fn loras(&self) -> impl Iterator<Item = &str> {
        self.loaded.keys().map(String::as_str)
    }

    /// True if an adapter of this name is loaded.
    pub fn is_lora(&self, name: &str) -> bool {
        self.loaded.contains_key(name)
    }

    /// Adapters that can be loaded at the same time.
    pub fn max_num_loras(&self) -> u64 {
        self.layout.slots
    }

    /// The highest rank that they may have.
    pub fn max_lora_rank(&self) -> u64 {
        self.layout.rank
    }

    /// The adapter of a name.
    ///
    /// # Errors
    ///
    /// If none of that name is loaded.
    pub fn get(&self, name: &str) -> Result<Adapter, LoraError> {
        let found = self.loaded.get(name).copied();
        found.ok_or_else(|| LoraError::Nonexistent {
            name: name.into(),
            loaded: self.loras().map(String::from).collect(),
        })
    }

    /// True if the adapter was not unloaded since.
    pub(super) fn is_loaded(&self, adapter: Adapter) -> bool {
        self.loaded.values().any(|other| *other == adapter)
    }

    /// The place for one more adapter: one that no loaded adapter has, and none that is still used.
    ///
    /// # Errors
    ///
    /// If the name is taken, or all places are.
    pub(super) fn place(
        &self,
        name: &str,
        is_used: impl Fn(u32) -> bool,
    ) -> Result<u32, LoraError> {
        if self.is_lora(name) {
            return Err(LoraError::NameExists { name: name.into() });
        }
        let is_free = |slot: &u32| {
            !is_used(*slot) && self.loaded.values().all(|adapter| adapter.slot != *slot)
        };
        let slot = (0..self.layout.slots as u32).find(is_free);
        slot.ok_or_else(|| LoraError::Full {
            slots: self.layout.slots,
            loaded: self.loras().map(String::from).collect(),
        })
    }

    /// Loads an adapter into its place.
    ///
    /// # Errors
    ///
    /// If it does not fit the model, or the device fails; then it is not loaded.
    pub(super) fn load(
        &mut self,
        decoder: &Model,
        name: &str,
        files: &AdapterFiles,
        adapter: Adapter,
    ) -> Result<(), LoraError> {
        let plan = pack::plan(files, &self.modules, &self.spec, self.layout)?;
        pack::write(files, &plan, &self.spec, self.layout, |buffer, numbers| {
            let start = u64::from(adapter.slot).saturating_mul(numbers.len() as u64);
            Ok(decoder.write_at(buffer, start, numbers)?)
        })?;
        self.loaded.insert(name.into(), adapter);
        Ok(())
    }

    /// Forgets the name of an adapter.
    ///
    /// # Errors
    ///
    /// If none of that name is loaded.
    pub(super) fn unload(&mut self, name: &str) -> Result<(), LoraError> {
        self.get(name)?;
        self.loaded.remove(name);
        Ok(())
    }
}

//! Files of compiled models, which a configuration names.

use std::path::Path;

use wisp_files::DiskCache;
use wisp_session::{CompiledModule, InferenceSession, SessionError, Tuning, tuning_file};
use wisp_types::DeviceInfo;

use crate::{
    config::{ConfigError, Field, FieldGroup, PipelineConfig, TuningSource},
    error::PipelineError,
    limits::ModelLimits,
    model_files::ModelFiles,
    prepare,
};

impl PipelineConfig {
    /// Makes a session take the model's programs from the file in
    /// [`Self::serialized_model_path`], if that is set.
    ///
    /// # Errors
    ///
    /// If the file is damaged, was made by another version, or for another model or other limits.
    /// The error says what differs.
    pub fn session(
        &self,
        session: InferenceSession,
        files: &ModelFiles,
        limits: &ModelLimits,
    ) -> Result<InferenceSession, PipelineError> {
        let Some(path) = &self.serialized_model_path else {
            return Ok(session);
        };
        let compiled = CompiledModule::load(Path::new(path)).map_err(SessionError::Artefact)?;
        let facts = prepare::facts(files, limits, self.precision);
        let mut differences = Vec::new();
        for (name, here) in &facts {
            let there = compiled.metadata().get(name);
            let there = there.map_or("unknown", String::as_str);
            if there != here {
                differences.push(difference(name, there, here));
            }
        }
        if !differences.is_empty() {
            let path = path.clone();
            return Err(ConfigError::Compiled { path, differences }.into());
        }
        Ok(session.with_compiled(compiled))
    }

    /// Returns the kernels that [`Self::tuning`] prefers on a device, and the defaults of its class of adapters.
    ///
    /// # Errors
    ///
    /// If the file in [`Self::tuning`] cannot be read, or was measured with other kernels.
    pub fn tuning_for(
        &self,
        device: &DeviceInfo,
        cache: Option<&DiskCache>,
    ) -> Result<Tuning, PipelineError> {
        let measured = match &self.tuning {
            TuningSource::Off => None,
            TuningSource::Auto => {
                cache.and_then(|cache| tuning_file::load(cache, device, self.precision))
            }
            TuningSource::File(path) => {
                let read = tuning_file::read(Path::new(path));
                Some(read.map_err(SessionError::from)?)
            }
        };
        let adapter = Tuning::of_adapter(device);
        Ok(measured.unwrap_or_default().followed_by(adapter))
    }

    /// Writes what a session has compiled for a model to the file in
    /// [`Self::save_to_serialized_model_path`], if that is set. Where memory decides whether embeddings by layer are on
    /// the device or on the host, the file serves both.
    ///
    /// # Errors
    ///
    /// If a graph cannot be compiled, or the file cannot be written.
    pub fn save_compiled(
        &self,
        session: &InferenceSession,
        files: &ModelFiles,
        limits: &ModelLimits,
    ) -> Result<(), PipelineError> {
        let Some(path) = &self.save_to_serialized_model_path else {
            return Ok(());
        };
        if files.model_spec.spec.layer_embeddings.is_some() {
            let target = &session.device().info().capabilities;
            for graph in prepare::graphs(files, target, *limits)? {
                session.compile(&graph)?;
            }
        }
        let facts = prepare::facts(files, limits, self.precision);
        let module = session.compiled()?.with_metadata(facts);
        let saved = module.save(Path::new(path));
        Ok(saved.map_err(SessionError::Artefact)?)
    }

    /// True if the model's programs come from a file or go to one. Then the sizes for which they are
    /// compiled must not depend on the prompt.
    pub fn has_compiled_file(&self) -> bool {
        self.serialized_model_path.is_some() || self.save_to_serialized_model_path.is_some()
    }
}

/// Says what a compiled file records of a fact and what it is here, with the setting that would agree with the file.
fn difference(name: &str, there: &str, here: &str) -> String {
    let setting = match Field::find(name) {
        Some(field) if field.group != FieldGroup::Model => format!(" (`{name} = {there}`)"),
        _ => String::new(),
    };
    format!("{name} is {there}, here {here}{setting}")
}

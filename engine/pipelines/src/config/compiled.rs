//! The fields that name files of compiled models.

use std::path::Path;

use super::{ConfigError, PipelineConfig};
use crate::{ModelLimits, PipelineError, model_files::ModelFiles, prepare};
use wisp_session::{ArtefactError, CompiledModule, InferenceSession, SessionError};

impl PipelineConfig {
    /// A session on a device that takes the model's programs from the file in `serialized_model_path`,
    /// if there is one.
    ///
    /// # Errors
    ///
    /// If the file is damaged, was made by another version, or for another model or other limits; the
    /// error says what differs.
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
        let own = prepare::facts(files, limits);
        let differences: Vec<String> = own
            .iter()
            .filter_map(|(name, own)| {
                let there = compiled.about().get(name).map_or("unknown", String::as_str);
                (there != own).then(|| format!("{name} is {there}, here {own}"))
            })
            .collect();
        match differences.is_empty() {
            true => Ok(session.with_compiled(compiled)),
            false => Err(PipelineError::Settings(ConfigError::Compiled {
                path: path.clone(),
                differences,
            })),
        }
    }

    /// Writes what a session has compiled for a model to the file in `save_to_serialized_model_path`,
    /// if there is one.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn save_compiled(
        &self,
        session: &InferenceSession,
        files: &ModelFiles,
        limits: &ModelLimits,
    ) -> Result<(), PipelineError> {
        let Some(path) = &self.save_to_serialized_model_path else {
            return Ok(());
        };
        let save = |module: CompiledModule| -> Result<(), ArtefactError> {
            module
                .saying(prepare::facts(files, limits))
                .save(Path::new(path))
        };
        session
            .compiled()
            .and_then(|module| save(module).map_err(SessionError::Artefact))
            .map_err(PipelineError::Session)
    }

    /// True if the model's programs come from a file or go to one: then what they are made for must not
    /// depend on the prompt.
    pub fn has_compiled_file(&self) -> bool {
        self.serialized_model_path.is_some() || self.save_to_serialized_model_path.is_some()
    }
}

//! Checks of a model's files against a configuration, and overrides of what the files state.

use wisp_weights::SupportedEncoding;

use super::{choices::RopeType, error::ConfigError, pipeline_config::PipelineConfig};
use crate::{
    model_files::ModelFiles,
    spec::{DecoderSpec, RopeScaling},
};

impl PipelineConfig {
    /// Checks that a model's files have the encoding and architecture that the configuration
    /// requires, and overrides the rope type.
    ///
    /// # Errors
    ///
    /// If the files do not meet these requirements, or the configuration requests something that is
    /// not supported.
    pub fn apply_overrides(&self, mut files: ModelFiles) -> Result<ModelFiles, ConfigError> {
        self.check_supported()?;
        if let Some(wanted) = self.quantization_encoding {
            check_encoding(&files, wanted)?;
        }
        let architecture = &files.model_spec.architecture;
        if let Some(wanted) = &self.architecture
            && !architecture.is_called(wanted)
        {
            return Err(ConfigError::Architecture {
                found: architecture.name().into(),
                wanted: wanted.clone(),
            });
        }
        self.apply_rope(&mut files.model_spec.spec)?;
        Ok(files)
    }

    /// Overrides how queries and keys rotate, if `rope_type` is set.
    ///
    /// # Errors
    ///
    /// If the checkpoint lacks the parameters of the rope type.
    pub fn apply_rope(&self, spec: &mut DecoderSpec) -> Result<(), ConfigError> {
        let Some(wanted) = self.rope_type else {
            return Ok(());
        };
        let scaled = |kind: fn(&RopeScaling) -> bool| spec.ropes.iter().any(|r| kind(&r.scaling));
        match wanted {
            RopeType::None => spec.layers.iter_mut().for_each(|layer| layer.rope = None),
            RopeType::Normal => spec.rope_interleaved = true,
            RopeType::Neox => spec.rope_interleaved = false,
            RopeType::Yarn if scaled(|r| matches!(r, RopeScaling::Yarn { .. })) => {}
            RopeType::LongRope if scaled(|r| matches!(r, RopeScaling::LongRope { .. })) => {}
            RopeType::Yarn | RopeType::LongRope => return Err(ConfigError::Rope { wanted }),
        }
        Ok(())
    }
}

/// Checks that the weights are in the wanted encoding, according to the file's name or its tensors.
fn check_encoding(files: &ModelFiles, wanted: SupportedEncoding) -> Result<(), ConfigError> {
    let mut names = files.checkpoint.file_names();
    let named = names
        .next()
        .and_then(SupportedEncoding::parse_from_file_name);
    let stored = SupportedEncoding::of(&files.checkpoint);
    if named == Some(wanted) || stored == Some(wanted) {
        return Ok(());
    }
    let stored = stored.map_or("in an unknown encoding", |stored| stored.name());
    Err(ConfigError::Encoding {
        file: files.name.clone(),
        stored: stored.into(),
        wanted,
    })
}

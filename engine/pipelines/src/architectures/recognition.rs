//! From a checkpoint's configuration to its architecture and spec.

use std::sync::Arc;

use wisp_weights::Checkpoint;

use super::{
    architecture::Architecture,
    error::ArchitectureError,
    gguf_metadata::GgufMetadata,
    hf_config::HfConfig,
    registry::{self, registered},
};
use crate::spec::{DecoderSpec, EncoderSpec, TensorNames};

/// What a checkpoint is: its architecture, what it computes and what it calls its tensors.
#[derive(Clone, Debug)]
pub struct ModelSpec {
    /// The checkpoint's architecture.
    pub architecture: Arc<Architecture>,
    /// What it computes.
    pub spec: DecoderSpec,
    /// True if the checkpoint is in GGUF, which has tensor names of its own.
    is_gguf: bool,
    /// True if the architecture itself rotates neighbours (GLM-4), so that no layout reorders the rows
    /// of queries and keys.
    rotates_neighbours: bool,
}

impl ModelSpec {
    /// Recognizes a checkpoint in Hugging Face's layout by the text of its `config.json`.
    ///
    /// # Errors
    ///
    /// If the text is not JSON, names no registered architecture, or has a value that the
    /// architecture does not support.
    pub fn from_config(config: &str) -> Result<ModelSpec, ArchitectureError> {
        let config = HfConfig::parse(config)?;
        let classes = config.classes();
        if classes.is_empty() {
            return Err(config.error("it names no `architectures`"));
        }
        let registered = registered();
        let found = registered.iter().find(|one| {
            let mut own = one.architecture.classes();
            own.any(|own| classes.iter().any(|class| class == own))
        });
        let Some(found) = found else {
            let all = registered.iter().flat_map(|one| one.architecture.classes());
            return Err(ArchitectureError::Unknown {
                names: classes,
                supported: all.map(String::from).collect(),
            });
        };
        let architecture = found.architecture.clone();
        let config = config.completed(&architecture.config_keys, found.defaults.clone())?;
        Ok(ModelSpec {
            spec: architecture.read_config(&config)?,
            architecture,
            is_gguf: false,
            rotates_neighbours: false,
        })
    }

    /// Recognizes a GGUF checkpoint by its metadata. `file` names it in error messages.
    ///
    /// # Errors
    ///
    /// If the checkpoint is not in GGUF, its architecture is not registered, or its metadata has a
    /// value that the architecture does not support.
    pub fn from_gguf(checkpoint: &Checkpoint, file: &str) -> Result<ModelSpec, ArchitectureError> {
        let metadata = GgufMetadata::new(checkpoint, file)?;
        let name = metadata.architecture();
        let all = registry::all();
        let mut named = all.iter();
        let found = named.find(|one| one.recognized_in_gguf().any(|known| known == name));
        let Some(architecture) = found.cloned() else {
            let supported = all.iter().flat_map(|one| one.recognized_in_gguf());
            return Err(ArchitectureError::Unknown {
                names: vec![name.into()],
                supported: supported.map(String::from).collect(),
            });
        };
        let mut spec = architecture.read_gguf(&metadata)?;
        // Only models that embed texts have a pooling.
        if metadata
            .optional_u32("pooling_type")?
            .is_some_and(|pooling| pooling != 0)
        {
            spec.embed_texts();
        }
        Ok(ModelSpec {
            rotates_neighbours: spec.rope_interleaved && !architecture.gguf_interleaved_rope,
            spec,
            architecture,
            is_gguf: true,
        })
    }

    /// Returns what the checkpoint calls its tensors.
    pub fn tensor_names(&self) -> &TensorNames {
        match self.is_gguf {
            true => self.architecture.gguf_names(),
            false => self.architecture.hf_tensor_names(),
        }
    }

    /// True if the checkpoint's weights are multiplied by the model's factors.
    pub(crate) fn has_scaled_weights(&self) -> bool {
        self.is_gguf && self.architecture.scales_weights_in_gguf()
    }

    /// True if the rows of queries and keys are stored in the order of interleaved rotation, although
    /// they are not in Hugging Face's layout.
    pub(crate) fn has_interleaved_rows(&self) -> bool {
        self.is_gguf && self.spec.rope_interleaved && !self.rotates_neighbours
    }

    /// Returns the spec of a decoder.
    ///
    /// # Errors
    ///
    /// If the model is an encoder.
    pub fn decoder(&self) -> Result<&DecoderSpec, ArchitectureError> {
        match self.spec.encoder {
            None => Ok(&self.spec),
            Some(_) => Err(ArchitectureError::NotADecoder {
                architecture: self.architecture.name().into(),
                decoders: first_classes(false),
            }),
        }
    }

    /// Returns the spec of an encoder.
    ///
    /// # Errors
    ///
    /// If the model is a decoder.
    pub fn encoder(&self) -> Result<(&DecoderSpec, EncoderSpec), ArchitectureError> {
        match self.spec.encoder {
            Some(encoder) => Ok((&self.spec, encoder)),
            None => Err(ArchitectureError::NotAnEncoder {
                architecture: self.architecture.name().into(),
                encoders: first_classes(true),
            }),
        }
    }
}

/// Returns the first class of every encoder, or of every decoder.
fn first_classes(encoders: bool) -> Vec<String> {
    let all = registry::all().into_iter();
    let wanted = all.filter(|architecture| architecture.is_encoder() == encoders);
    wanted
        .filter_map(|architecture| architecture.classes().next().map(String::from))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_configuration_has_the_defaults_of_its_class() {
        for architecture in registry::all() {
            for class in architecture.classes() {
                let config = format!(r#"{{"architectures": ["{class}"]}}"#);
                let model_spec = ModelSpec::from_config(&config).unwrap();
                assert_eq!(model_spec.architecture.name(), architecture.name());
                model_spec.spec.check().unwrap();
                assert_eq!(model_spec.spec.encoder.is_some(), architecture.is_encoder());
            }
        }
    }

    #[test]
    fn unknown_classes_are_refused_with_the_supported_ones() {
        let error = ModelSpec::from_config(r#"{"architectures": ["A", "B"]}"#).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("the architecture A, B is not supported"),
            "{text}"
        );
        assert!(
            text.contains("MistralForCausalLM, MixtralForCausalLM"),
            "{text}"
        );
    }

    #[test]
    fn rotation_of_more_than_a_head_is_refused() {
        let config = r#"{"architectures": ["GPTNeoXForCausalLM"], "rotary_pct": 1e9}"#;
        let model_spec = ModelSpec::from_config(config).unwrap();
        let error = model_spec.spec.check().unwrap_err().to_string();
        assert!(error.contains("cannot rotate"), "{error}");
    }
}

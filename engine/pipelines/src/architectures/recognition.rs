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
use crate::spec::{DecoderSpec, EncoderSpec, TensorNames, in_layer};

/// The field of `config.json` that is false if the tokens of a decoder attend to later ones as well.
const IS_CAUSAL: &str = "is_causal";

/// The same in GGUF, after the architecture.
const GGUF_IS_CAUSAL: &str = "attention.causal";

/// What a checkpoint is: its architecture, what it computes and what it calls its tensors.
#[derive(Clone, Debug)]
pub struct ModelSpec {
    /// The checkpoint's architecture.
    pub architecture: Arc<Architecture>,
    /// What it computes.
    pub spec: DecoderSpec,
    /// True if the checkpoint is in GGUF, which has tensor names of its own.
    is_gguf: bool,
    /// True if it is one of the first GGUF files of models with experts, which have a tensor for each expert.
    splits_experts: bool,
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
        let mut spec = architecture.read_config(&config)?;
        if !config.bool_or(IS_CAUSAL, true)? {
            attend_to_whole_texts(&mut spec, IS_CAUSAL).map_err(|problem| config.error(problem))?;
        }
        if classes.iter().any(|class| architecture.is_backbone(class)) {
            spec.embed_texts();
            // There is no output layer.
            spec.tied = true;
        }
        Ok(ModelSpec {
            spec,
            architecture,
            is_gguf: false,
            splits_experts: false,
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
        if !metadata.bool_or(GGUF_IS_CAUSAL, true)? {
            let set = attend_to_whole_texts(&mut spec, GGUF_IS_CAUSAL);
            set.map_err(|problem| metadata.error(problem))?;
        }
        // Only models that embed texts have a pooling.
        if metadata
            .optional_u32("pooling_type")?
            .is_some_and(|pooling| pooling != 0)
        {
            spec.embed_texts();
        }
        let split = TensorNames::gguf_with_split_experts();
        let first_expert = in_layer(&in_layer(&split.expert_gate, 0), 0);
        Ok(ModelSpec {
            rotates_neighbours: spec.rope_interleaved && !architecture.gguf_interleaved_rope,
            spec,
            architecture,
            is_gguf: true,
            splits_experts: metadata.has_weight(&first_expert),
        })
    }

    /// Returns what the checkpoint calls its tensors.
    pub fn tensor_names(&self) -> &TensorNames {
        match (self.is_gguf, self.splits_experts) {
            (true, true) => TensorNames::gguf_with_split_experts(),
            (true, false) => self.architecture.gguf_names(),
            (false, _) => self.architecture.hf_tensor_names(),
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
            Some(encoder) => Err(ArchitectureError::NotADecoder {
                architecture: self.architecture.name().into(),
                field: self.non_causal_field(encoder),
                decoders: first_classes(false),
            }),
        }
    }

    /// Returns the field that makes an encoder of the checkpoint of a decoder.
    fn non_causal_field(&self, encoder: EncoderSpec) -> Option<&'static str> {
        let field = match self.is_gguf {
            true => GGUF_IS_CAUSAL,
            false => IS_CAUSAL,
        };
        (!encoder.causal && !self.architecture.is_encoder()).then_some(field)
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

/// Makes an encoder of a decoder whose tokens attend to later ones, as `field` says.
///
/// # Errors
///
/// Why that is not supported, as a sentence.
fn attend_to_whole_texts(spec: &mut DecoderSpec, field: &str) -> Result<(), String> {
    let has_windows = spec.layers.iter().any(|layer| layer.window.is_some());
    match spec.encoder {
        Some(encoder) if !encoder.causal => Ok(()),
        None if !has_windows => {
            spec.encoder = Some(EncoderSpec {
                causal: false,
                ..EncoderSpec::causal()
            });
            // The output layer is of no use.
            spec.tied = true;
            Ok(())
        }
        _ => Err(format!(
            "`{field}` is false, which is supported only in decoders without windows"
        )),
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
                let embeds = architecture.is_encoder() || architecture.is_backbone(class);
                assert_eq!(model_spec.spec.encoder.is_some(), embeds, "{class}");
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
            text.contains("MistralForCausalLM, MistralModel, MixtralForCausalLM"),
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

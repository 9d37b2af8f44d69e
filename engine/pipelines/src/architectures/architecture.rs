//! What an architecture is: how its checkpoints map to a spec, and what GGUF calls its parts.

use std::{borrow::Cow, fmt, sync::Arc};

use wisp_weights::gguf::Value;

use super::{error::ArchitectureError, gguf_metadata::GgufMetadata, hf_config::HfConfig};
use crate::spec::{DecoderSpec, TensorNames};

type Text = Cow<'static, str>;
type SpecFromConfig =
    Arc<dyn Fn(&HfConfig) -> Result<DecoderSpec, ArchitectureError> + Send + Sync>;
type SpecFromGguf =
    Arc<dyn Fn(&GgufMetadata<'_>) -> Result<DecoderSpec, ArchitectureError> + Send + Sync>;
type GgufValue = Arc<dyn Fn(&DecoderSpec) -> Option<Value> + Send + Sync>;

/// An architecture: how its checkpoints, in Hugging Face's layout and in GGUF, map to a
/// [`DecoderSpec`], what they call their tensors, and how they are converted to GGUF.
///
/// [`Architecture::new`] makes a Llama of another name, and [`Architecture::derived`] a copy of
/// another architecture; further methods change where they differ. The
/// [module's page](super) has an example.
#[derive(Clone)]
pub struct Architecture {
    pub(super) name: Text,
    pub(super) config_classes: Vec<Text>,
    backbone_classes: Vec<Text>,
    pub(super) config_defaults: Text,
    pub(super) config_keys: Vec<(Text, Text)>,
    pub(super) gguf_name: Option<Text>,
    gguf_aliases: Vec<Text>,
    is_encoder: bool,
    tensor_names: TensorNames,
    gguf_tensor_names: Option<TensorNames>,
    spec_from_config: SpecFromConfig,
    spec_from_gguf: SpecFromGguf,
    gguf_written_as: Text,
    gguf_written_with_experts_as: Option<Text>,
    gguf_scaled_weights: bool,
    gguf_tiled_values: bool,
    pub(super) gguf_interleaved_rope: bool,
    gguf_keys: Vec<(Text, GgufValue)>,
}

impl fmt::Debug for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Architecture")
            .field("name", &self.name)
            .field("config_classes", &self.config_classes)
            .field("gguf_name", &self.gguf_name)
            .field("is_encoder", &self.is_encoder)
            .finish_non_exhaustive()
    }
}

impl Architecture {
    /// Makes a Llama under another name: its tensor names, the spec that
    /// [`HfConfig::decoder_spec`] and [`GgufMetadata::decoder_spec`] make, and conversion to GGUF
    /// files that every program reads as Llama's. It still needs [config
    /// classes](Self::config_classes) or a [GGUF name](Self::gguf).
    pub fn new(name: impl Into<Text>) -> Architecture {
        let architecture = Architecture {
            name: name.into(),
            config_classes: Vec::new(),
            backbone_classes: Vec::new(),
            config_defaults: "{}".into(),
            config_keys: Vec::new(),
            gguf_name: None,
            gguf_aliases: Vec::new(),
            is_encoder: false,
            tensor_names: TensorNames::hugging_face(),
            gguf_tensor_names: None,
            spec_from_config: Arc::new(HfConfig::decoder_spec),
            spec_from_gguf: Arc::new(|metadata| metadata.decoder_spec()),
            gguf_written_as: "llama".into(),
            gguf_written_with_experts_as: None,
            gguf_scaled_weights: false,
            gguf_tiled_values: false,
            gguf_interleaved_rope: true,
            gguf_keys: Vec::new(),
        };
        architecture.gguf_key("attention.sliding_window", |spec| {
            let window = spec.layers.iter().find_map(|layer| layer.window);
            window.map(Value::U32)
        })
    }

    /// Makes a copy under another name, without config classes and GGUF name, which belong to one
    /// architecture alone. Conversion still writes the GGUF files of the original.
    #[must_use]
    pub fn derived(&self, name: impl Into<Text>) -> Architecture {
        Architecture {
            name: name.into(),
            config_classes: Vec::new(),
            backbone_classes: Vec::new(),
            gguf_name: None,
            gguf_aliases: Vec::new(),
            ..self.clone()
        }
    }

    /// Sets the names under `architectures` in `config.json` by which a checkpoint is recognized.
    #[must_use]
    pub fn config_classes<T: Into<Text>>(mut self, classes: impl IntoIterator<Item = T>) -> Self {
        self.config_classes = classes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets further names under `architectures` in `config.json`: those of decoders that transformers saved without an
    /// output layer. Such checkpoints embed texts.
    #[must_use]
    pub fn backbone_classes<T: Into<Text>>(mut self, classes: impl IntoIterator<Item = T>) -> Self {
        self.backbone_classes = classes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the values of fields that a `config.json` may leave out, as a JSON object: the defaults
    /// of the configuration class in transformers.
    #[must_use]
    pub fn config_defaults(mut self, json: impl Into<Text>) -> Self {
        self.config_defaults = json.into();
        self
    }

    /// Gives a field of `config.json` its common name: `common` is Llama's, `own` is this
    /// architecture's.
    #[must_use]
    pub fn config_key(mut self, common: impl Into<Text>, own: impl Into<Text>) -> Self {
        self.config_keys.push((common.into(), own.into()));
        self
    }

    /// Sets how a `config.json` maps to a spec. [`HfConfig::decoder_spec`] makes a Llama's to start
    /// from.
    #[must_use]
    pub fn spec_from_config(
        mut self,
        spec: impl Fn(&HfConfig) -> Result<DecoderSpec, ArchitectureError> + Send + Sync + 'static,
    ) -> Self {
        self.spec_from_config = Arc::new(spec);
        self
    }

    /// Sets what a checkpoint in Hugging Face's layout calls its tensors.
    #[must_use]
    pub fn tensor_names(mut self, names: TensorNames) -> Self {
        self.tensor_names = names;
        self
    }

    /// Declares the architecture an encoder, whose specs have [`DecoderSpec::encoder`].
    #[must_use]
    pub fn encoder(mut self) -> Self {
        self.is_encoder = true;
        self
    }

    /// Sets the `general.architecture` by which a GGUF file is recognized, and which conversion
    /// writes. Queries and keys are then stored in Hugging Face's order.
    #[must_use]
    pub fn gguf(mut self, name: impl Into<Text>) -> Self {
        let name = name.into();
        self.gguf_written_as = name.clone();
        self.gguf_name = Some(name);
        self.gguf_interleaved_rope = false;
        self
    }

    /// Sets further names by which a GGUF file is recognized: those of models that read images as well, of which the
    /// file has the language model. Conversion does not write them.
    #[must_use]
    pub fn gguf_aliases<T: Into<Text>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.gguf_aliases = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets what a GGUF file calls the tensors, where that is not as in [`TensorNames::gguf`].
    #[must_use]
    pub fn gguf_tensor_names(mut self, names: TensorNames) -> Self {
        self.gguf_tensor_names = Some(names);
        self
    }

    /// Makes conversion write another architecture's GGUF files, which other programs can read.
    #[must_use]
    pub fn gguf_written_as(mut self, name: impl Into<Text>) -> Self {
        self.gguf_written_as = name.into();
        self
    }

    /// Makes conversion write another architecture's GGUF files for models with experts.
    #[must_use]
    pub fn gguf_written_with_experts_as(mut self, name: impl Into<Text>) -> Self {
        self.gguf_written_with_experts_as = Some(name.into());
        self
    }

    /// Declares that GGUF has no keys for the model's factors, by which conversion therefore multiplies the weights.
    #[must_use]
    pub fn gguf_scaled_weights(mut self) -> Self {
        self.gguf_scaled_weights = true;
        self
    }

    /// Declares that GGUF files that conversion writes for another architecture store the rows of queries and keys in the
    /// order of the checkpoint.
    #[must_use]
    pub fn gguf_plain_rope(mut self) -> Self {
        self.gguf_interleaved_rope = false;
        self
    }

    /// Declares that GGUF stores the heads of a delta net's values in tiles ([`DeltaNetSpec::tiled`]).
    ///
    /// [`DeltaNetSpec::tiled`]: crate::spec::DeltaNetSpec::tiled
    #[must_use]
    pub fn gguf_tiled_values(mut self) -> Self {
        self.gguf_tiled_values = true;
        self
    }

    /// Declares that GGUF stores the rows of queries and keys in the order of interleaved rotation,
    /// as it does for Llama.
    #[must_use]
    pub fn gguf_interleaved_rope(mut self) -> Self {
        self.gguf_interleaved_rope = true;
        self
    }

    /// Sets how the metadata of a GGUF file maps to a spec. [`GgufMetadata::decoder_spec`] makes a
    /// Llama's to start from.
    #[must_use]
    pub fn spec_from_gguf(
        mut self,
        spec: impl Fn(&GgufMetadata<'_>) -> Result<DecoderSpec, ArchitectureError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.spec_from_gguf = Arc::new(spec);
        self
    }

    /// Makes conversion write a metadata key under the architecture's prefix, beside those that all
    /// models have. It is left out of models for which `value` returns `None`.
    #[must_use]
    pub fn gguf_key(
        mut self,
        key: impl Into<Text>,
        value: impl Fn(&DecoderSpec) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        let key = key.into();
        self.gguf_keys.retain(|(other, _)| *other != key);
        self.gguf_keys.push((key, Arc::new(value)));
        self
    }

    /// The name by which Wisp lists the architecture.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names under `architectures` in `config.json` by which a checkpoint is recognized.
    pub fn classes(&self) -> impl Iterator<Item = &str> {
        let classes = self.config_classes.iter().chain(&self.backbone_classes);
        classes.map(AsRef::as_ref)
    }

    /// True if a class is that of decoders without an output layer.
    pub(super) fn is_backbone(&self, class: &str) -> bool {
        self.backbone_classes.iter().any(|own| own == class)
    }

    /// The `general.architecture` by which a GGUF file is recognized; `None` if no file is.
    pub fn gguf_name(&self) -> Option<&str> {
        self.gguf_name.as_deref()
    }

    /// All names by which a GGUF file is recognized.
    pub fn recognized_in_gguf(&self) -> impl Iterator<Item = &str> {
        let aliases = self.gguf_aliases.iter().map(AsRef::as_ref);
        self.gguf_name().into_iter().chain(aliases)
    }

    /// True for an encoder, which computes embeddings, false for a decoder, which generates text.
    pub fn is_encoder(&self) -> bool {
        self.is_encoder
    }

    /// What a checkpoint in Hugging Face's layout calls its tensors.
    pub fn hf_tensor_names(&self) -> &TensorNames {
        &self.tensor_names
    }

    /// What a GGUF file calls the tensors.
    pub fn gguf_names(&self) -> &TensorNames {
        let own = self.gguf_tensor_names.as_ref();
        own.unwrap_or_else(|| TensorNames::gguf())
    }

    /// True if the architecture has this name, in Wisp or among the classes of `config.json`.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.classes().any(|class| class == name)
    }

    /// Makes the spec of a `config.json`.
    ///
    /// # Errors
    ///
    /// If the configuration lacks a field or has a value that is not supported.
    pub fn read_config(&self, config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
        self.check_kind((self.spec_from_config)(config)?)
    }

    /// Makes the spec of the metadata of a GGUF file.
    ///
    /// # Errors
    ///
    /// If the metadata lacks a key or has a value that is not supported.
    pub fn read_gguf(&self, metadata: &GgufMetadata<'_>) -> Result<DecoderSpec, ArchitectureError> {
        let mut spec = (self.spec_from_gguf)(metadata)?;
        spec.rope_interleaved |= self.gguf_interleaved_rope;
        self.check_kind(spec)
    }

    /// Checks that the spec is an encoder's if the architecture is declared one.
    fn check_kind(&self, spec: DecoderSpec) -> Result<DecoderSpec, ArchitectureError> {
        match spec.encoder.is_some() == self.is_encoder {
            true => Ok(spec),
            false => Err(ArchitectureError::WrongKind {
                architecture: self.name.to_string(),
                encoder: self.is_encoder,
            }),
        }
    }

    /// True if the weights in GGUF are multiplied by the model's factors.
    pub(crate) fn scales_weights_in_gguf(&self) -> bool {
        self.gguf_scaled_weights
    }
}

/// What conversion to GGUF needs.
#[cfg(not(target_arch = "wasm32"))]
impl Architecture {
    /// The `general.architecture` of the GGUF file that conversion writes for a model.
    pub(crate) fn gguf_output_name(&self, spec: &DecoderSpec) -> &str {
        let with_experts = self.gguf_written_with_experts_as.as_deref();
        let name = with_experts.filter(|_| spec.moe.is_some());
        name.unwrap_or(&self.gguf_written_as)
    }

    /// True if GGUF tiles the heads of a delta net's values.
    pub(crate) fn tiles_values_in_gguf(&self) -> bool {
        self.gguf_tiled_values
    }

    /// True if conversion has a value of its own for a key, or leaves it out.
    pub(crate) fn has_gguf_key(&self, key: &str) -> bool {
        self.gguf_keys.iter().any(|(own, _)| own == key)
    }

    /// True if GGUF stores the rows of queries and keys in the order of interleaved rotation.
    pub(crate) fn interleaves_rope_in_gguf(&self) -> bool {
        self.gguf_interleaved_rope
    }

    /// The metadata that conversion writes for a model beside what all models have.
    pub(crate) fn gguf_metadata(&self, spec: &DecoderSpec) -> Vec<(&str, Value)> {
        let values = self.gguf_keys.iter();
        let values = values.map(|(key, value)| Some((key.as_ref(), value(spec)?)));
        values.flatten().collect()
    }
}

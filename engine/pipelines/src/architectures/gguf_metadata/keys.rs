//! The keys of a GGUF file's metadata.

use wisp_weights::{
    Checkpoint, FormatError, WeightError, WeightSource,
    gguf::{FromValue, Gguf},
};

use crate::{
    architectures::error::ArchitectureError,
    spec::{DecoderSpec, TensorNames},
};

/// The metadata of a GGUF file under its architecture's prefix, and the tensors beside it.
#[derive(Clone, Copy, Debug)]
pub struct GgufMetadata<'a> {
    checkpoint: &'a Checkpoint,
    gguf: &'a Gguf,
    file: &'a str,
    architecture: &'a str,
}

impl<'a> GgufMetadata<'a> {
    /// Reads the metadata of a checkpoint. `file` names it in error messages.
    pub(crate) fn new(
        checkpoint: &'a Checkpoint,
        file: &'a str,
    ) -> Result<GgufMetadata<'a>, ArchitectureError> {
        let gguf = checkpoint.gguf().ok_or_else(|| ArchitectureError::Config {
            file: file.into(),
            problem: "it is not a GGUF file".into(),
        })?;
        let architecture = gguf.require::<&str>("general.architecture");
        Ok(GgufMetadata {
            checkpoint,
            gguf,
            file,
            architecture: architecture.map_err(|error| error.in_file(file))?,
        })
    }

    /// Returns `general.architecture`.
    pub fn architecture(&self) -> &'a str {
        self.architecture
    }

    /// Makes the error of a file that an architecture cannot use.
    pub fn error(&self, problem: impl Into<String>) -> ArchitectureError {
        ArchitectureError::Config {
            file: self.file.into(),
            problem: problem.into(),
        }
    }

    fn in_file(&self, error: FormatError) -> WeightError {
        error.in_file(self.file)
    }

    fn optional<T: FromValue<'a>>(&self, key: &str) -> Result<Option<T>, ArchitectureError> {
        let value = self.gguf.get(&format!("{}.{key}", self.architecture));
        Ok(value.map_err(|error| self.in_file(error))?)
    }

    /// Returns the whole number `ARCHITECTURE.key`.
    ///
    /// # Errors
    ///
    /// If the key is missing or is not a whole number of 32 bits.
    pub fn u32(&self, key: &str) -> Result<u32, ArchitectureError> {
        let value = self.gguf.require(&format!("{}.{key}", self.architecture));
        Ok(value.map_err(|error| self.in_file(error))?)
    }

    /// Returns the whole number `ARCHITECTURE.key`; `None` if the key is missing.
    ///
    /// # Errors
    ///
    /// If it is not a whole number of 32 bits.
    pub fn optional_u32(&self, key: &str) -> Result<Option<u32>, ArchitectureError> {
        self.optional(key)
    }

    /// Returns the whole number `ARCHITECTURE.key`, `otherwise` if the key is missing.
    ///
    /// # Errors
    ///
    /// If it is not a whole number of 32 bits.
    pub fn u32_or(&self, key: &str, otherwise: u32) -> Result<u32, ArchitectureError> {
        Ok(self.optional_u32(key)?.unwrap_or(otherwise))
    }

    /// Returns the number `ARCHITECTURE.key`; `None` if the key is missing.
    ///
    /// # Errors
    ///
    /// If it is not a number.
    pub fn optional_f32(&self, key: &str) -> Result<Option<f32>, ArchitectureError> {
        self.optional(key)
    }

    /// Returns the number `ARCHITECTURE.key`, `otherwise` if the key is missing.
    ///
    /// # Errors
    ///
    /// If it is not a number.
    pub fn f32_or(&self, key: &str, otherwise: f32) -> Result<f32, ArchitectureError> {
        Ok(self.optional_f32(key)?.unwrap_or(otherwise))
    }

    /// Returns the boolean `ARCHITECTURE.key`; `None` if the key is missing.
    ///
    /// # Errors
    ///
    /// If it is not a boolean.
    pub fn optional_bool(&self, key: &str) -> Result<Option<bool>, ArchitectureError> {
        self.optional(key)
    }

    /// Returns the boolean `ARCHITECTURE.key`, `otherwise` if the key is missing.
    ///
    /// # Errors
    ///
    /// If it is not a boolean.
    pub fn bool_or(&self, key: &str, otherwise: bool) -> Result<bool, ArchitectureError> {
        Ok(self.optional_bool(key)?.unwrap_or(otherwise))
    }

    /// Returns the text `ARCHITECTURE.key`; `None` if the key is missing.
    ///
    /// # Errors
    ///
    /// If it is not a text.
    pub fn optional_text(&self, key: &str) -> Result<Option<&'a str>, ArchitectureError> {
        self.optional(key)
    }

    /// Returns the KV heads of each layer, if `attention.head_count_kv` says so for each: 0 stands for a
    /// layer without attention.
    pub fn layer_kv_heads(&self) -> Option<Vec<u32>> {
        self.optional("attention.head_count_kv").ok().flatten()
    }

    /// Returns a whole number for each of some layers: `ARCHITECTURE.key` has one for all, or for each its own.
    ///
    /// # Errors
    ///
    /// If the key is missing or has another type.
    pub fn layer_numbers(&self, key: &str, layers: usize) -> Result<Vec<u32>, ArchitectureError> {
        match self.optional::<Vec<u32>>(key) {
            Ok(Some(numbers)) => Ok(numbers),
            _ => Ok(vec![self.u32(key)?; layers]),
        }
    }

    /// Gives each layer its width of the feed-forward network, if `feed_forward_length` says so for each.
    pub fn set_widths(&self, spec: &mut DecoderSpec) {
        let widths = self.optional::<Vec<u32>>("feed_forward_length");
        let widths = widths.ok().flatten().unwrap_or_default();
        for (layer, width) in spec.layers.iter_mut().zip(widths) {
            layer.intermediate_size = Some(width.into());
        }
    }

    /// Returns a number for each layer; `None` if `ARCHITECTURE.key` is missing or no list of them.
    pub fn layer_floats(&self, key: &str) -> Option<Vec<f32>> {
        self.optional(key).ok().flatten()
    }

    /// Returns a truth value for each layer; `None` if `ARCHITECTURE.key` is missing or no list of them.
    pub fn layer_flags(&self, key: &str) -> Option<Vec<bool>> {
        self.optional(key).ok().flatten()
    }

    /// Sets the window of layers from `attention.sliding_window`. Which layers have it says
    /// `attention.sliding_window_pattern`, for each layer or as the distance between layers without
    /// a window, the first of which ends the first stretch; files without this key have the
    /// distance `otherwise`.
    ///
    /// # Errors
    ///
    /// If a key has the wrong type.
    pub fn set_windows(
        &self,
        spec: &mut DecoderSpec,
        otherwise: u32,
    ) -> Result<(), ArchitectureError> {
        let window = self.optional_u32("attention.sliding_window")?;
        let key = "attention.sliding_window_pattern";
        if let Some(windowed) = self.layer_flags(key) {
            let has_window = |layer| windowed.get(layer).copied().unwrap_or(false);
            spec.set_windows(window, has_window);
            return Ok(());
        }
        let every = self.u32_or(key, otherwise)? as usize;
        spec.set_windows(window, |layer| !(layer + 1).is_multiple_of(every));
        Ok(())
    }

    /// True if the file has a tensor of this whole name.
    pub fn has(&self, name: &str) -> bool {
        self.checkpoint.find(name).is_some()
    }

    /// True if the file has the tensor `name.weight`.
    pub fn has_weight(&self, name: &str) -> bool {
        self.has(&format!("{name}.weight"))
    }

    /// Returns the number of rows of the tensor `name.weight`; `None` if the file does not have it.
    pub fn weight_rows(&self, name: &str) -> Option<u64> {
        let info = self.checkpoint.find(&format!("{name}.weight"))?;
        info.shape.first().copied()
    }

    /// Returns the labels of the head that scores texts; `None` if the file has no such head.
    pub fn score_labels(&self) -> Option<u64> {
        self.weight_rows(&TensorNames::gguf().score_output)
    }

    /// Returns the number of rows of the tensor `name.weight`, which must exist.
    pub(super) fn required_weight_rows(&self, name: &str) -> Result<u64, ArchitectureError> {
        let info = self.checkpoint.require(&format!("{name}.weight"))?;
        Ok(info.shape.first().copied().unwrap_or(0))
    }

    /// Decodes a tensor; `None` if the file does not have it.
    pub(super) fn tensor(&self, name: &str) -> Result<Option<Vec<f32>>, ArchitectureError> {
        match self.has(name) {
            true => Ok(Some(self.checkpoint.read_f32(name)?)),
            false => Ok(None),
        }
    }
}

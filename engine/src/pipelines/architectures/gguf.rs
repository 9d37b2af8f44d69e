//! GGUF metadata of a decoder.

use super::super::{
    DecoderSpec, PipelineError,
    decoder::GGUF,
    rope::{RopeScaling, yarn_attention_factor},
};
use crate::{
    graph::Activation,
    session::SessionError,
    weights::{Checkpoint, WeightSource, encodings, gguf::Gguf},
};

/// The metadata under a checkpoint's architecture prefix.
pub struct GgufConfig<'a> {
    checkpoint: &'a Checkpoint,
    gguf: &'a Gguf,
    file: &'a str,
    architecture: &'a str,
}

impl<'a> GgufConfig<'a> {
    pub(super) fn new(
        checkpoint: &'a Checkpoint,
        file: &'a str,
    ) -> Result<GgufConfig<'a>, PipelineError> {
        let no_metadata = || PipelineError::Config {
            file: file.into(),
            problem: "it is no GGUF file".into(),
        };
        let gguf = checkpoint.gguf().ok_or_else(no_metadata)?;
        let architecture = gguf
            .require::<&str>("general.architecture")
            .map_err(|error| error.in_file(file))?;
        Ok(GgufConfig {
            checkpoint,
            gguf,
            file,
            architecture,
        })
    }

    /// `general.architecture`.
    pub fn architecture(&self) -> &'a str {
        self.architecture
    }

    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    /// A whole number under the architecture's prefix, if it is there.
    ///
    /// # Errors
    ///
    /// If it is no number.
    pub fn u32(&self, key: &str) -> Result<Option<u32>, PipelineError> {
        Ok(self
            .gguf
            .get::<u32>(&self.key(key))
            .map_err(|error| error.in_file(self.file))?)
    }

    fn f32(&self, key: &str) -> Result<Option<f32>, PipelineError> {
        Ok(self
            .gguf
            .get::<f32>(&self.key(key))
            .map_err(|error| error.in_file(self.file))?)
    }

    fn require(&self, key: &str) -> Result<u32, PipelineError> {
        Ok(self
            .gguf
            .require::<u32>(&self.key(key))
            .map_err(|error| error.in_file(self.file))?)
    }

    fn scaling(&self, max_positions: u64) -> Result<RopeScaling, PipelineError> {
        if let Some(info) = self.checkpoint.find("rope_freqs.weight") {
            let bytes = self.checkpoint.bytes("rope_freqs.weight", 0..info.len)?;
            let elements = info.shape.iter().product::<u64>() as usize;
            let factors = encodings::dequantize(info.encoding()?, &bytes, 1, elements)
                .map_err(SessionError::from)?;
            return Ok(RopeScaling::Factors(factors));
        }
        let kind = self
            .gguf
            .get::<&str>(&self.key("rope.scaling.type"))
            .map_err(|error| error.in_file(self.file))?;
        let factor = f64::from(
            self.f32("rope.scaling.factor")?
                .or(self.f32("rope.scale_linear")?)
                .unwrap_or(1.0),
        );
        match kind {
            None if factor != 1.0 && factor != 0.0 => Ok(RopeScaling::Linear { factor }),
            None | Some("none") => Ok(RopeScaling::None),
            Some("linear") => Ok(RopeScaling::Linear { factor }),
            Some("yarn") => Ok(RopeScaling::Yarn {
                factor,
                original: self
                    .u32("rope.scaling.original_context_length")?
                    .map_or(max_positions as f64, f64::from),
                beta_fast: self
                    .f32("rope.scaling.yarn_beta_fast")?
                    .map_or(32.0, f64::from),
                beta_slow: self
                    .f32("rope.scaling.yarn_beta_slow")?
                    .map_or(1.0, f64::from),
                attention_factor: self.f32("rope.scaling.attn_factor")?.map_or(1.0, f64::from)
                    * yarn_attention_factor(factor),
                truncate: true,
            }),
            Some(other) => Err(PipelineError::Config {
                file: self.file.into(),
                problem: format!(
                    "rope scaling {other:?} is not supported; none, linear and yarn are"
                ),
            }),
        }
    }

    /// The common decoder, as this metadata sizes it.
    ///
    /// # Errors
    ///
    /// If a key is missing or has the wrong type.
    pub fn decoder(&self) -> Result<DecoderSpec, PipelineError> {
        let (hidden_size, heads, layers) = (
            self.require("embedding_length")?,
            self.require("attention.head_count")?,
            self.require("block_count")?,
        );
        let max_positions = u64::from(self.require("context_length")?);
        let head_dim = match self.u32("attention.key_length")? {
            Some(head_dim) => head_dim,
            None => hidden_size / heads.max(1),
        };
        let embedding = self
            .checkpoint
            .require(&format!("{}.weight", GGUF.embedding))?;
        Ok(DecoderSpec {
            vocab_size: embedding.shape.first().copied().unwrap_or(0),
            hidden_size: hidden_size.into(),
            intermediate_size: self.require("feed_forward_length")?.into(),
            layers,
            heads,
            kv_heads: self.u32("attention.head_count_kv")?.unwrap_or(heads),
            head_dim,
            norm_eps: self
                .f32("attention.layer_norm_rms_epsilon")?
                .unwrap_or(1e-5),
            activation: Activation::Silu,
            rope_theta: self.f32("rope.freq_base")?.unwrap_or(10_000.0),
            rotary_dim: self.u32("rope.dimension_count")?.unwrap_or(head_dim),
            rope_scaling: self.scaling(max_positions)?,
            rope_interleaved: false,
            max_positions,
            windows: vec![None; layers.min(4097) as usize],
            tied: self
                .checkpoint
                .find(&format!("{}.weight", GGUF.output))
                .is_none(),
        })
    }
}

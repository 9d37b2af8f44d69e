//! GGUF metadata of a decoder.

use super::super::{
    DecoderSpec, PipelineError,
    rope::{RopeScaling, longrope_attention_factor, yarn_attention_factor},
    spec::{GGUF, LayerSpec, MoeSpec, NormPlacement, QkNorm, RopeSettings},
};
use wisp_graph::{Activation, NormKind, NormSpec};
use wisp_session::SessionError;
use wisp_weights::{Checkpoint, WeightSource, encodings, gguf::Gguf};

/// The metadata under a checkpoint's architecture prefix.
pub struct GgufConfig<'a> {
    checkpoint: &'a Checkpoint,
    gguf: &'a Gguf,
    file: &'a str,
    architecture: &'a str,
}

impl<'a> GgufConfig<'a> {
    pub(crate) fn new(
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

    /// The error of metadata that an architecture cannot use.
    pub fn problem(&self, problem: &str) -> PipelineError {
        PipelineError::Config {
            file: self.file.into(),
            problem: problem.into(),
        }
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

    /// A number under the architecture's prefix, if it is there.
    ///
    /// # Errors
    ///
    /// If it is no number.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, PipelineError> {
        Ok(self
            .gguf
            .get::<f32>(&self.key(key))
            .map_err(|error| error.in_file(self.file))?)
    }

    /// A boolean under the architecture's prefix, if it is there.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn boolean(&self, key: &str) -> Result<Option<bool>, PipelineError> {
        Ok(self
            .gguf
            .get::<bool>(&self.key(key))
            .map_err(|error| error.in_file(self.file))?)
    }

    fn require(&self, key: &str) -> Result<u32, PipelineError> {
        Ok(self
            .gguf
            .require::<u32>(&self.key(key))
            .map_err(|error| error.in_file(self.file))?)
    }

    /// A tensor's numbers, if it is there.
    fn numbers(&self, name: &str) -> Result<Option<Vec<f32>>, PipelineError> {
        let Some(info) = self.checkpoint.find(name) else {
            return Ok(None);
        };
        let bytes = self.checkpoint.bytes(name, 0..info.len)?;
        let elements = info.shape.iter().product::<u64>() as usize;
        let numbers = encodings::dequantize(info.encoding()?, &bytes, 1, elements)
            .map_err(SessionError::from)?;
        Ok(Some(numbers))
    }

    fn scaling(&self, max_positions: u64) -> Result<RopeScaling, PipelineError> {
        if let Some(factors) = self.numbers("rope_freqs.weight")? {
            return Ok(RopeScaling::Factors(factors));
        }
        let factors = ["short", "long"].map(|kind| format!("rope_factors_{kind}.weight"));
        if let (Some(short), Some(long)) = (self.numbers(&factors[0])?, self.numbers(&factors[1])?)
        {
            let original = self
                .u32("rope.scaling.original_context_length")?
                .map_or(max_positions as f64, f64::from);
            let attention_factor = match self.f32("rope.scaling.attn_factor")? {
                Some(factor) => f64::from(factor),
                None => longrope_attention_factor(max_positions as f64 / original, original),
            };
            return Ok(RopeScaling::LongRope {
                short,
                long,
                original,
                attention_factor,
            });
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
        let intermediate_size = u64::from(self.require("feed_forward_length")?);
        let layer = LayerSpec {
            window: None,
            rope: Some(0),
            attention_scale: 1.0 / (head_dim as f32).sqrt(),
            moe: false,
            attention_norm: true,
        };
        let moe = self.moe(intermediate_size)?;
        let mut layers = DecoderSpec::equal_layers(layers, layer);
        for (i, layer) in layers.iter_mut().enumerate() {
            let router = GGUF.router.replacen("{}", &i.to_string(), 1);
            layer.moe = moe.is_some() && self.has(&router);
        }
        Ok(DecoderSpec {
            vocab_size: embedding.shape.first().copied().unwrap_or(0),
            hidden_size: hidden_size.into(),
            intermediate_size,
            layers,
            heads,
            kv_heads: self.u32("attention.head_count_kv")?.unwrap_or(heads),
            head_dim,
            norm: NormSpec {
                kind: NormKind::Rms,
                eps: self
                    .f32("attention.layer_norm_rms_epsilon")?
                    .or(self.f32("attention.layer_norm_epsilon")?)
                    .unwrap_or(1e-5),
                // Where a model adds 1 to its norms, its file has that in them.
                weight_offset: 0.0,
            },
            norm_placement: NormPlacement::Pre,
            qk_norm: QkNorm::None,
            activation: Activation::Silu,
            gated: true,
            moe,
            rotary_dim: self.u32("rope.dimension_count")?.unwrap_or(head_dim),
            rope_interleaved: false,
            ropes: vec![RopeSettings {
                theta: self.f32("rope.freq_base")?.unwrap_or(10_000.0),
                scaling: self.scaling(max_positions)?,
            }],
            max_positions,
            learned_positions: false,
            attention_softcap: 0.0,
            logit_softcap: 0.0,
            embedding_multiplier: 1.0,
            residual_multiplier: 1.0,
            logit_multiplier: 1.0,
            parallel_residual: false,
            tied: !self.has(GGUF.output),
            encoder: None,
        })
    }

    /// Rows of the weight of this name, if it is there.
    pub fn rows(&self, name: &str) -> Option<u64> {
        let info = self.checkpoint.find(&format!("{name}.weight"))?;
        info.shape.first().copied()
    }

    /// Whether there is a weight of this name.
    fn has(&self, name: &str) -> bool {
        self.checkpoint.find(&format!("{name}.weight")).is_some()
    }

    /// The mixture, if there is one.
    fn moe(&self, intermediate_size: u64) -> Result<Option<MoeSpec>, PipelineError> {
        let experts = self.u32("expert_count")?.unwrap_or(0);
        if experts == 0 {
            return Ok(None);
        }
        Ok(Some(MoeSpec {
            experts,
            experts_per_token: self.require("expert_used_count")?,
            normalise: self.boolean("expert_weights_norm")?.unwrap_or(true),
            intermediate_size: self
                .u32("expert_feed_forward_length")?
                .map_or(intermediate_size, u64::from),
        }))
    }
}

//! Checks that a spec is consistent, before anything is sized by it.

use super::{
    decoder_spec::{DecoderSpec, MAX_LAYERS},
    error::SpecError,
};

/// The largest size of any kind. Products of two sizes then fit 64 bits.
const MAX_SIZE: u64 = 1 << 28;

/// The most query heads of a layer.
const MAX_HEADS: u64 = 4096;

/// The widest head that the attention kernels support.
const MAX_HEAD_DIM: u64 = 256;

/// The most experts of a layer.
const MAX_EXPERTS: u64 = 4096;

impl DecoderSpec {
    /// Checks that the sizes are consistent and within what the kernels support.
    ///
    /// # Errors
    ///
    /// If they are not.
    pub fn check(&self) -> Result<(), SpecError> {
        for (what, size, max) in [
            ("the vocabulary's size", self.vocab_size, MAX_SIZE),
            ("the hidden size", self.hidden_size, MAX_SIZE),
            ("the intermediate size", self.intermediate_size, MAX_SIZE),
            (
                "the number of layers",
                self.layers.len() as u64,
                MAX_LAYERS as u64,
            ),
            ("the number of heads", self.heads.into(), MAX_HEADS),
            ("the number of KV heads", self.kv_heads.into(), MAX_HEADS),
            ("the width of a head", self.head_dim.into(), MAX_HEAD_DIM),
            ("the context length", self.max_positions, MAX_SIZE),
        ] {
            check_size(what, size, max)?;
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(SpecError::UnevenHeads {
                heads: self.heads,
                kv_heads: self.kv_heads,
            });
        }
        self.check_ropes()?;
        self.check_numbers()?;
        self.check_experts()
    }

    fn check_ropes(&self) -> Result<(), SpecError> {
        let Some(index) = self.layers.iter().filter_map(|layer| layer.rope).max() else {
            return Ok(());
        };
        if self.rotary_dim == 0 || self.rotary_dim > self.head_dim || self.rotated() > self.head_dim
        {
            return Err(SpecError::RotaryDim {
                rotary_dim: self.rotary_dim,
                head_dim: self.head_dim,
            });
        }
        let count = self.ropes.len();
        match index < count {
            true => Ok(()),
            false => Err(SpecError::MissingRope { index, count }),
        }
    }

    fn check_numbers(&self) -> Result<(), SpecError> {
        let finite = [
            ("the embedding multiplier", self.embedding_multiplier),
            ("the residual multiplier", self.residual_multiplier),
            ("the logit multiplier", self.logit_multiplier),
            ("the soft cap of attention scores", self.attention_softcap),
            ("the soft cap of logits", self.logit_softcap),
        ];
        let scales = self.layers.iter();
        let scales = scales.map(|layer| ("a layer's attention scale", layer.attention_scale));
        for (what, value) in finite.into_iter().chain(scales) {
            if !value.is_finite() {
                let value = value.into();
                return Err(SpecError::Number { what, value });
            }
        }
        for rope in &self.ropes {
            let theta = ("the rotary base", f64::from(rope.theta));
            let factor = rope.scaling.factor();
            let factor = factor.map(|factor| ("the factor of the rope scaling", factor));
            for (what, value) in [Some(theta), factor].into_iter().flatten() {
                if !(value > 0.0 && value.is_finite()) {
                    return Err(SpecError::Number { what, value });
                }
            }
        }
        Ok(())
    }

    fn check_experts(&self) -> Result<(), SpecError> {
        let Some(moe) = &self.moe else {
            return match self.layers.iter().any(|layer| layer.moe) {
                true => Err(SpecError::MissingExperts),
                false => Ok(()),
            };
        };
        check_size("the number of experts", moe.experts.into(), MAX_EXPERTS)?;
        if moe.experts_per_token == 0 || moe.experts_per_token > moe.experts {
            return Err(SpecError::ExpertsPerToken {
                experts_per_token: moe.experts_per_token,
                experts: moe.experts,
            });
        }
        check_size("an expert's width", moe.intermediate_size, MAX_SIZE)
    }
}

fn check_size(what: &'static str, size: u64, max: u64) -> Result<(), SpecError> {
    match size {
        1.. if size <= max => Ok(()),
        _ => Err(SpecError::Size { what, size, max }),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::decoder_spec::DecoderSizes, *};

    fn spec(layers: u32, head_dim: u32) -> DecoderSpec {
        DecoderSpec::llama(DecoderSizes {
            vocab_size: 16,
            hidden_size: 32,
            intermediate_size: 48,
            layers,
            heads: 2,
            kv_heads: 2,
            head_dim,
            max_positions: 64,
        })
    }

    #[test]
    fn sizes_outside_their_range_are_named() {
        spec(1, 16).check().unwrap();
        let message = |spec: DecoderSpec| spec.check().unwrap_err().to_string();
        let layers = message(spec(u32::MAX, 16));
        assert!(layers.contains("number of layers is 4097"), "{layers}");
        let head_dim = message(spec(1, 257));
        assert!(head_dim.contains("width of a head is 257"), "{head_dim}");
        let mut none = spec(1, 16);
        none.max_positions = 0;
        assert!(message(none).contains("context length is 0"));
    }

    #[test]
    fn odd_heads_cannot_rotate_whole() {
        let error = spec(1, 15).check().unwrap_err();
        let expected = SpecError::RotaryDim {
            rotary_dim: 15,
            head_dim: 15,
        };
        assert_eq!(error, expected);
    }
}

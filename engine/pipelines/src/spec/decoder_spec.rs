//! How a decoder, or an encoder, differs from the common one, as data.

use crate::rope::RopeScaling;
use wisp_graph::{Activation, CacheFormat, NormSpec};

/// How a decoder-only transformer differs from the common one.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderSpec {
    /// Words of the vocabulary.
    pub vocab_size: u64,
    /// Width of the residual stream.
    pub hidden_size: u64,
    /// Width of the feed-forward.
    pub intermediate_size: u64,
    /// The blocks.
    pub layers: Vec<LayerSpec>,
    /// Query heads.
    pub heads: u32,
    /// KV heads, of which each serves `heads / kv_heads` query heads.
    pub kv_heads: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Every norm.
    pub norm: NormSpec,
    /// Where a block's norms stand.
    pub norm_placement: NormPlacement,
    /// The norm of queries and keys.
    pub qk_norm: QkNorm,
    /// The feed-forward's activation.
    pub activation: Activation,
    /// The feed-forward is `down(activation(gate(x)) * up(x))`, else `down(activation(up(x)))`.
    pub gated: bool,
    /// The mixture that takes the feed-forward's place in some layers.
    pub moe: Option<MoeSpec>,
    /// Elements of a head that frequencies are made for; an odd one rotates its neighbour too.
    pub rotary_dim: u32,
    /// Pairs `(2i, 2i + 1)` rotate rather than halves.
    pub rope_interleaved: bool,
    /// The rotary embeddings that layers choose from.
    pub ropes: Vec<RopeSettings>,
    /// Positions that the model was made for.
    pub max_positions: u64,
    /// Positions have an embedding, which is added to the tokens'.
    pub learned_positions: bool,
    /// Attention scores are capped by `cap * tanh(score / cap)`; 0: not.
    pub attention_softcap: f32,
    /// Logits are capped so; 0: not.
    pub logit_softcap: f32,
    /// Factor on the tokens' embeddings.
    pub embedding_multiplier: f32,
    /// Factor on what a block's halves add to the residual stream.
    pub residual_multiplier: f32,
    /// Factor on the logits.
    pub logit_multiplier: f32,
    /// Attention and feed-forward read the same input and are added together.
    pub parallel_residual: bool,
    /// The output layer is the embedding.
    pub tied: bool,
    /// What makes an encoder of it; an encoder has no output layer.
    pub encoder: Option<EncoderSpec>,
}

/// An encoder: every token sees the whole text, and its embedding is normalised before the first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderSpec {
    /// Kinds of segments, which have an embedding that is added to the tokens'; 0: none have.
    pub token_types: u64,
    /// The padding token, where learned positions count from the one after it, and it has none itself.
    pub padding: Option<u32>,
}

/// How one block differs from another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerSpec {
    /// Positions that its attention sees; `None` is all.
    pub window: Option<u32>,
    /// Which of [`DecoderSpec::ropes`] turns its queries and keys; `None`: they are not turned.
    pub rope: Option<usize>,
    /// Factor on its attention scores.
    pub attention_scale: f32,
    /// Its feed-forward is the mixture.
    pub moe: bool,
    /// There is a norm before its attention, where blocks have one.
    pub attention_norm: bool,
}

/// A rotary embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeSettings {
    /// Base of the frequencies.
    pub theta: f32,
    /// How positions beyond the trained ones are reached.
    pub scaling: RopeScaling,
}

/// Where a block's norms stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormPlacement {
    /// Before attention and feed-forward.
    Pre,
    /// After them, before the sum.
    Post,
    /// Before and after.
    Both,
    /// After the sum.
    AfterSum,
}

/// What the norm of queries and keys runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// There is none.
    None,
    /// Each head by itself.
    PerHead,
    /// All heads together.
    Whole,
}

/// A mixture of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoeSpec {
    /// Experts in a layer.
    pub experts: u32,
    /// Experts that a token goes to.
    pub experts_per_token: u32,
    /// Their weights are made to sum to 1.
    pub normalise: bool,
    /// Width of an expert.
    pub intermediate_size: u64,
}

/// Layers that a graph may have.
const MAX_LAYERS: usize = 4096;

/// Heads that a layer may have.
const MAX_HEADS: u32 = 4096;

/// Experts that a layer may have.
const MAX_EXPERTS: u32 = 4096;

impl DecoderSpec {
    /// `count` equal layers; one more than can be, if there are too many.
    pub fn equal_layers(count: u32, layer: LayerSpec) -> Vec<LayerSpec> {
        vec![layer; (count as usize).min(MAX_LAYERS + 1)]
    }

    /// Elements of a head that rotate.
    pub fn rotated(&self) -> u32 {
        self.rotary_dim.next_multiple_of(2)
    }

    /// Sets each layer's window: `window` where `windowed` says so. One of 0 is none.
    pub fn set_windows(&mut self, window: Option<u32>, windowed: impl Fn(usize) -> bool) {
        for (i, layer) in self.layers.iter_mut().enumerate() {
            layer.window = window.filter(|window| *window > 0 && windowed(i));
        }
    }

    /// Gives the layers with a window a rotary embedding of their own.
    pub fn set_local_rope(&mut self, local: RopeSettings) {
        let own = self.ropes.len();
        self.ropes.push(local);
        for layer in self
            .layers
            .iter_mut()
            .filter(|layer| layer.window.is_some())
        {
            layer.rope = Some(own);
        }
    }

    /// Rows of the learned positions' table.
    pub fn position_rows(&self) -> u64 {
        let padding = self.encoder.and_then(|encoder| encoder.padding);
        self.max_positions + padding.map_or(0, |padding| u64::from(padding) + 1)
    }

    /// Sets the factor on every layer's attention scores.
    pub fn set_attention_scale(&mut self, scale: f32) {
        for layer in &mut self.layers {
            layer.attention_scale = scale;
        }
    }

    /// The sizes that must be consistent for a graph to exist.
    ///
    /// # Errors
    ///
    /// What is not, in words.
    pub fn check(&self) -> Result<(), String> {
        let positive = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("the number of layers", self.layers.len() as u64),
            ("the number of heads", self.heads.into()),
            ("the number of KV heads", self.kv_heads.into()),
            ("head_dim", self.head_dim.into()),
            ("the context length", self.max_positions),
        ];
        for (what, size) in positive {
            if size == 0 || size > 1 << 28 {
                return Err(format!("{what} is {size}"));
            }
        }
        if self.layers.len() > MAX_LAYERS || self.head_dim > 256 {
            return Err(format!(
                "{} layers with heads {} wide: up to {MAX_LAYERS} layers and widths up to 256 are supported",
                self.layers.len(),
                self.head_dim
            ));
        }
        if self.heads > MAX_HEADS {
            return Err(format!(
                "{} heads: up to {MAX_HEADS} are supported",
                self.heads
            ));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(format!(
                "{} heads cannot share {} KV heads",
                self.heads, self.kv_heads
            ));
        }
        let ropes = self.layers.iter().filter_map(|layer| layer.rope);
        if let Some(rope) = ropes.max() {
            if self.rotary_dim == 0 || self.rotated() > self.head_dim {
                return Err(format!(
                    "{} of {} elements of a head cannot rotate",
                    self.rotary_dim, self.head_dim
                ));
            }
            if rope >= self.ropes.len() {
                return Err(format!(
                    "a layer has rotary embedding {rope} of {}",
                    self.ropes.len()
                ));
            }
        }
        self.check_numbers()?;
        self.check_moe()
    }

    fn check_numbers(&self) -> Result<(), String> {
        let scales = self.layers.iter().map(|layer| layer.attention_scale);
        let numbers = [
            self.embedding_multiplier,
            self.residual_multiplier,
            self.logit_multiplier,
            self.attention_softcap,
            self.logit_softcap,
        ];
        if let Some(number) = numbers.into_iter().chain(scales).find(|n| !n.is_finite()) {
            return Err(format!("a multiplier or soft cap is {number}"));
        }
        for rope in &self.ropes {
            if !(rope.theta > 0.0 && rope.theta.is_finite()) {
                return Err(format!("the rotary base is {}", rope.theta));
            }
            if let Some(factor) = rope.scaling.factor()
                && !(factor > 0.0 && factor.is_finite())
            {
                return Err(format!("the factor of the rope scaling is {factor}"));
            }
        }
        Ok(())
    }

    fn check_moe(&self) -> Result<(), String> {
        let Some(moe) = &self.moe else {
            return match self.layers.iter().any(|layer| layer.moe) {
                true => Err("a layer has experts, but there are none".into()),
                false => Ok(()),
            };
        };
        if moe.experts == 0 || moe.experts > MAX_EXPERTS {
            return Err(format!(
                "the number of experts is {}: 1 to {MAX_EXPERTS} are supported",
                moe.experts
            ));
        }
        if moe.experts_per_token == 0 || moe.experts_per_token > moe.experts {
            return Err(format!(
                "a token cannot go to {} of {} experts",
                moe.experts_per_token, moe.experts
            ));
        }
        if moe.intermediate_size == 0 || moe.intermediate_size > 1 << 28 {
            return Err(format!("an expert's width is {}", moe.intermediate_size));
        }
        Ok(())
    }

    /// Bytes of KV cache that one position takes over all layers. An encoder's share one cache.
    pub fn kv_bytes_per_position(&self, format: CacheFormat) -> u64 {
        let caches = match self.encoder {
            Some(_) => 1,
            None => self.layers.len() as u64,
        };
        caches * 2 * self.kv_row_bytes(format)
    }

    /// Bytes of one layer's keys (or values) for one position.
    pub fn kv_row_bytes(&self, format: CacheFormat) -> u64 {
        u64::from(self.kv_heads) * self.cache_format(format).head_words(self.head_dim) * 4
    }

    /// The format of the cache where this one is asked for: an encoder's lasts for one run and is
    /// not compressed.
    pub fn cache_format(&self, format: CacheFormat) -> CacheFormat {
        match self.encoder {
            Some(_) => CacheFormat::F32,
            None => format,
        }
    }
}

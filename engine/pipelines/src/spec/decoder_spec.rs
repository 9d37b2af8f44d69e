//! The spec of a decoder or encoder: how it differs from Llama.

use wisp_graph::{Activation, CacheFormat, NormKind, NormSpec};

use super::{
    encoder::EncoderSpec,
    feed_forward::{FeedForward, FeedForwardGate, MoeSpec},
    mixer::Mixer,
    residual::{AltUp, LayerEmbeddings, LayerMultipliers},
};
use crate::rope::RopeScaling;

/// What a transformer computes: its sizes, and how it differs from Llama.
///
/// [`DecoderSpec::llama`] makes the spec of a Llama; an architecture then changes the fields in
/// which it differs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DecoderSpec {
    /// Tokens in the vocabulary: rows of the embedding and of the output layer.
    pub vocab_size: u64,
    /// Width of the residual stream.
    pub hidden_size: u64,
    /// Width of the dense feed-forward network's inner layer.
    pub intermediate_size: u64,
    /// The blocks, from the first to the last.
    pub layers: Vec<LayerSpec>,
    /// Query heads.
    pub heads: u32,
    /// KV heads of layers without [`LayerSpec::head_sizes`]. Each serves `heads / kv_heads` query heads.
    pub kv_heads: u32,
    /// Elements of a query, key or value head of these layers, at most 512.
    pub head_dim: u32,
    /// Projects queries, keys and values through low ranks (DeepSeek V2). Each head has keys and values of its own.
    pub latent: Option<LatentAttention>,
    /// All norms except those over queries and keys, which share the kind and epsilon.
    pub norm: NormSpec,
    /// Where a block's norms stand.
    pub norm_placement: NormPlacement,
    /// Whether queries and keys are normalized.
    pub qk_norm: QkNorm,
    /// True if the values of each head are normalized, without a weight (Gemma 3n).
    pub v_norm: bool,
    /// True if the query projection also makes a gate for each head, behind its query, whose sigmoid
    /// multiplies the output of attention (Qwen3-Next).
    pub attention_gate: bool,
    /// The activation of the feed-forward network.
    pub activation: Activation,
    /// What the result of the activation is multiplied by.
    pub gate: FeedForwardGate,
    /// The mixture of experts that replaces the feed-forward network in layers with
    /// [`FeedForward::Experts`].
    pub moe: Option<MoeSpec>,
    /// Leading elements of a head for which rotary embeddings without [`RopeSettings::rotary_dim`] compute frequencies.
    /// If odd, one more rotates.
    pub rotary_dim: u32,
    /// True if neighbours `(2i, 2i + 1)` rotate together, false if halves `(i, i + n / 2)` do.
    pub rope_interleaved: bool,
    /// The rotary embeddings that layers select by index ([`LayerSpec::rope`]).
    pub ropes: Vec<RopeSettings>,
    /// The factor on queries that grows with their position. Layers that rotate and have it rotate whole heads.
    pub query_scaling: Option<QueryScaling>,
    /// The context length that the model was trained for.
    pub max_positions: u64,
    /// True if each position has a learned embedding that is added to the token's.
    pub learned_positions: bool,
    /// Caps attention scores at `cap * tanh(score / cap)`; 0 leaves them as they are.
    pub attention_softcap: f32,
    /// Caps logits in the same way; 0 leaves them as they are.
    pub logit_softcap: f32,
    /// Factor on token embeddings.
    pub embedding_multiplier: f32,
    /// Factor on the outputs of attention and feed-forward before they are added to the residual
    /// stream.
    pub residual_multiplier: f32,
    /// Factor on logits.
    pub logit_multiplier: f32,
    /// Factors within a layer.
    pub layer_multipliers: LayerMultipliers,
    /// True if attention and feed-forward read the same input and are added together (GPT-J).
    pub parallel_residual: bool,
    /// True if the feed-forward of a parallel residual reads the norm before attention instead of
    /// one of its own (Cohere).
    pub shared_norm: bool,
    /// Keeps several versions of the residual stream, of which each layer computes one (Gemma 3n).
    pub alt_up: Option<AltUp>,
    /// The rank of a linear branch beside attention (Gemma 3n's "learned augmented residual layer"); `None` if there is
    /// none.
    pub laurel_rank: Option<u64>,
    /// Adds an embedding of its own to each layer's output (Gemma 3n).
    pub layer_embeddings: Option<LayerEmbeddings>,
    /// True if a stored number multiplies the output of each layer (Gemma 4).
    pub layer_scalars: bool,
    /// True if the embedding is also the output layer.
    pub tied: bool,
    /// Makes the model an encoder: attention is bidirectional and there is no output layer.
    pub encoder: Option<EncoderSpec>,
}

/// The sizes of a Llama, from which [`DecoderSpec::llama`] makes its spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecoderSizes {
    /// See [`DecoderSpec::vocab_size`].
    pub vocab_size: u64,
    /// See [`DecoderSpec::hidden_size`].
    pub hidden_size: u64,
    /// See [`DecoderSpec::intermediate_size`].
    pub intermediate_size: u64,
    /// The number of blocks.
    pub layers: u32,
    /// See [`DecoderSpec::heads`].
    pub heads: u32,
    /// See [`DecoderSpec::kv_heads`].
    pub kv_heads: u32,
    /// See [`DecoderSpec::head_dim`].
    pub head_dim: u32,
    /// See [`DecoderSpec::max_positions`].
    pub max_positions: u64,
}

#[cfg(test)]
impl DecoderSizes {
    /// The sizes of a small model.
    pub(crate) const SMALL: DecoderSizes = DecoderSizes {
        vocab_size: 16,
        hidden_size: 32,
        intermediate_size: 48,
        layers: 2,
        heads: 2,
        kv_heads: 2,
        head_dim: 16,
        max_positions: 64,
    };
}

/// Sizes of attention heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadSizes {
    /// KV heads.
    pub kv_heads: u32,
    /// Elements of a query, key or value head.
    pub head_dim: u32,
}

/// What a layer's KV cache stores for each position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedHeads {
    /// KV heads.
    pub kv_heads: u32,
    /// Elements of a cached head, and of the queries that attend to it.
    pub head_dim: u32,
    /// Elements of a value, the first of its head.
    pub value_dim: u32,
    /// True if the cache has keys only, of which the values are a part (latent attention).
    pub keys_only: bool,
}

impl LayerSpec {
    /// True if the layer has a KV cache of its own.
    pub fn has_cache(&self) -> bool {
        self.mixer.attends() && self.shared_kv.is_none()
    }
}

/// How one block differs from another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerSpec {
    /// How the layer's tokens take in those before them.
    pub mixer: Mixer,
    /// The sizes of heads, if they are not those of the model (Gemma 4's layers without a window).
    pub head_sizes: Option<HeadSizes>,
    /// True if values are the projected keys before their norm and rotation (Gemma 4).
    pub values_are_keys: bool,
    /// Positions that a token attends to, itself included; `None` for all before it.
    pub window: Option<u32>,
    /// True if the window is a chunk: positions are divided into chunks of its size, and a token attends to those of
    /// its own (Llama 4).
    pub chunked: bool,
    /// The index in [`DecoderSpec::ropes`] of the rotary embedding of queries and keys; `None` if
    /// they are not rotated.
    pub rope: Option<usize>,
    /// Factor on attention scores.
    pub attention_scale: f32,
    /// True if each query head has a sink: a learned score that joins its softmax (gpt-oss).
    pub sinks: bool,
    /// The earlier layer whose keys and values attention reads; `None` if the layer has its own (Gemma 3n).
    pub shared_kv: Option<usize>,
    /// Which feed-forward network follows.
    pub feed_forward: FeedForward,
    /// Width of the dense feed-forward network, if it is not [`DecoderSpec::intermediate_size`].
    pub intermediate_size: Option<u64>,
    /// Replaces the inputs of the feed-forward's activation by what exceeds their mean by this many standard
    /// deviations, and all others by 0 (Gemma 3n).
    pub activation_cutoff: Option<f32>,
    /// False if the norm before attention is missing (ModernBERT's first block).
    pub attention_norm: bool,
}

/// A rotary position embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeSettings {
    /// Base of the frequencies.
    pub theta: f32,
    /// How the context is extended beyond the trained one.
    pub scaling: RopeScaling,
    /// Leading elements of a head for which frequencies are computed, if not [`DecoderSpec::rotary_dim`].
    pub rotary_dim: Option<u32>,
}

impl RopeSettings {
    /// Returns a rotary embedding over [`DecoderSpec::rotary_dim`] elements.
    pub fn new(theta: f32, scaling: RopeScaling) -> RopeSettings {
        RopeSettings {
            theta,
            scaling,
            rotary_dim: None,
        }
    }
}

/// A factor on queries that grows with their position: `1 + beta * ln(1 + floor((position + offset) / context))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryScaling {
    /// How fast the factor grows.
    pub beta: f32,
    /// The trained context, in positions, within which the factor is 1.
    pub context: f64,
    /// What the first position counts as: 0 in Ministral 3, 1 in Llama 4.
    pub offset: u32,
    /// Which layers have the factor: those that rotate (Ministral 3), or those that do not (Llama 4).
    pub rotated: bool,
}

impl QueryScaling {
    /// Returns the factor at a position.
    pub(crate) fn factor(self, position: u64) -> f64 {
        let position = position.saturating_add(self.offset.into());
        let contexts = (position as f64 / self.context).floor();
        1.0 + f64::from(self.beta) * (1.0 + contexts).ln()
    }
}

/// Multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2"): keys and values come from one vector of a low rank,
/// but for the elements of keys that rotate, which all heads share. Only these are cached: a head's key is their product
/// with a matrix, by which its query is multiplied instead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatentAttention {
    /// The rank of queries; `None` if they are projected at once.
    pub q_rank: Option<u64>,
    /// The rank of keys and values, at most 512.
    pub kv_rank: u32,
    /// Elements of a value's head, at most 512.
    pub value_dim: u32,
    /// The epsilon of the norms of vectors of low rank.
    pub norm_eps: f32,
}

/// Where a block's norms stand, relative to its sublayers (attention and feed-forward).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormPlacement {
    /// Before each sublayer: `x + f(norm(x))` (Llama).
    Pre,
    /// On each sublayer's output: `x + norm(f(x))` (OLMo 2).
    Output,
    /// On both sides of each sublayer: `x + norm(f(norm(x)))` (Gemma 2).
    Sandwich,
    /// After each residual sum: `norm(x + f(x))` (BERT).
    PostResidual,
}

/// Over what queries and keys are normalized: before rotation, unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// They are not.
    None,
    /// Over the elements of each head (Qwen 3).
    PerHead,
    /// Over all heads together (OLMo 2).
    AllHeads,
    /// Over the elements of each head after rotation (Hunyuan).
    PerRotatedHead,
    /// Over the elements of each head after rotation, without a weight, in layers that rotate (Llama 4).
    UnweightedPerRotatedHead,
}

/// The most layers that a spec may have.
pub(super) const MAX_LAYERS: usize = 4096;

impl DecoderSpec {
    /// Makes the spec of a Llama: RMS norms before attention and feed-forward, rotary embeddings
    /// over whole heads with base 10,000, a gated SiLU feed-forward network, an untied output layer.
    pub fn llama(sizes: DecoderSizes) -> DecoderSpec {
        let layer = LayerSpec {
            mixer: Mixer::Attention,
            head_sizes: None,
            values_are_keys: false,
            window: None,
            chunked: false,
            rope: Some(0),
            attention_scale: 1.0 / (sizes.head_dim as f32).sqrt(),
            sinks: false,
            shared_kv: None,
            feed_forward: FeedForward::Dense,
            intermediate_size: None,
            activation_cutoff: None,
            attention_norm: true,
        };
        // A file may claim any number: one layer too many is enough for `check` to refuse it.
        let layers = (sizes.layers as usize).min(MAX_LAYERS + 1);
        DecoderSpec {
            vocab_size: sizes.vocab_size,
            hidden_size: sizes.hidden_size,
            intermediate_size: sizes.intermediate_size,
            layers: vec![layer; layers],
            heads: sizes.heads,
            kv_heads: sizes.kv_heads,
            head_dim: sizes.head_dim,
            latent: None,
            norm: NormSpec {
                kind: NormKind::Rms,
                eps: 1e-6,
                weight_offset: 0.0,
            },
            norm_placement: NormPlacement::Pre,
            qk_norm: QkNorm::None,
            v_norm: false,
            attention_gate: false,
            activation: Activation::Silu,
            gate: FeedForwardGate::Projected,
            moe: None,
            rotary_dim: sizes.head_dim,
            rope_interleaved: false,
            ropes: vec![RopeSettings::new(10_000.0, RopeScaling::None)],
            query_scaling: None,
            max_positions: sizes.max_positions,
            learned_positions: false,
            attention_softcap: 0.0,
            logit_softcap: 0.0,
            embedding_multiplier: 1.0,
            residual_multiplier: 1.0,
            logit_multiplier: 1.0,
            layer_multipliers: LayerMultipliers::ONE,
            parallel_residual: false,
            shared_norm: false,
            alt_up: None,
            laurel_rank: None,
            layer_embeddings: None,
            layer_scalars: false,
            tied: false,
            encoder: None,
        }
    }

    /// Returns the sizes of a layer's heads.
    pub fn head_sizes(&self, layer: usize) -> HeadSizes {
        let own = self.layers.get(layer).and_then(|layer| layer.head_sizes);
        own.unwrap_or(HeadSizes {
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
        })
    }

    /// Returns what a layer's KV cache stores. With latent attention it is one head for each position: the vector of low
    /// rank, and the elements of keys that rotate.
    pub fn cached_heads(&self, layer: usize) -> CachedHeads {
        let HeadSizes { kv_heads, head_dim } = self.head_sizes(layer);
        match self.latent {
            Some(latent) => CachedHeads {
                kv_heads: 1,
                head_dim: latent.kv_rank.saturating_add(self.rotary_dim),
                value_dim: latent.kv_rank,
                keys_only: true,
            },
            None => CachedHeads {
                kv_heads,
                head_dim,
                value_dim: head_dim,
                keys_only: false,
            },
        }
    }

    /// Rows of workgroups that some kernels have for each token: one for each of its experts, or for each head with latent
    /// attention.
    pub(crate) fn rows_per_token(&self) -> u32 {
        let experts = self.moe.map_or(1, |moe| moe.experts_per_token);
        let heads = self.latent.map_or(1, |_| self.heads);
        experts.max(heads).max(1)
    }

    /// Outputs of a layer's query projection: queries and, where there are any, gates.
    pub(crate) fn query_rows(&self, layer: usize) -> u64 {
        let parts = if self.attention_gate { 2 } else { 1 };
        parts * u64::from(self.heads) * u64::from(self.head_sizes(layer).head_dim)
    }

    /// Makes a decoder compute the hidden states of whole texts, as encoders do. An encoder stays as it is.
    pub fn embed_texts(&mut self) {
        self.encoder.get_or_insert(EncoderSpec::causal());
    }

    /// Elements of a head that a rotary embedding rotates: its own number or else [`Self::rotary_dim`], rounded up to an
    /// even number. 0 if there is no such rotary embedding.
    pub fn rotated(&self, rope: usize) -> u32 {
        let rotary_dim = self.rotary_dim_of(rope).unwrap_or(0);
        rotary_dim.checked_next_multiple_of(2).unwrap_or(u32::MAX)
    }

    /// Leading elements of a head for which a rotary embedding computes frequencies.
    pub(crate) fn rotary_dim_of(&self, rope: usize) -> Option<u32> {
        let rope = self.ropes.get(rope)?;
        Some(rope.rotary_dim.unwrap_or(self.rotary_dim))
    }

    /// Gives the layers for which `with_experts` is true the mixture of experts, and the others the dense
    /// feed-forward network.
    pub fn set_expert_layers(&mut self, with_experts: impl Fn(usize) -> bool) {
        for (i, layer) in self.layers.iter_mut().enumerate() {
            layer.feed_forward = match with_experts(i) {
                true => FeedForward::Experts,
                false => FeedForward::Dense,
            };
        }
    }

    /// Returns the number of layers without experts before the first that has them.
    pub fn leading_dense_layers(&self) -> usize {
        let layers = self.layers.iter();
        layers
            .take_while(|layer| !layer.feed_forward.has_experts())
            .count()
    }

    /// Sets the window of the layers for which `windowed` is true and removes it from the others. A
    /// window of 0 counts as none.
    pub fn set_windows(&mut self, window: Option<u32>, windowed: impl Fn(usize) -> bool) {
        for (i, layer) in self.layers.iter_mut().enumerate() {
            layer.window = window.filter(|window| *window > 0 && windowed(i));
        }
    }

    /// Adds a rotary embedding that the layers with a window use instead of the first.
    pub fn set_local_rope(&mut self, local: RopeSettings) {
        let index = self.ropes.len();
        self.ropes.push(local);
        let windowed = self.layers.iter_mut();
        for layer in windowed.filter(|layer| layer.window.is_some()) {
            layer.rope = Some(index);
        }
    }

    /// Replaces rotary embeddings by learned positions.
    pub fn use_learned_positions(&mut self) {
        self.learned_positions = true;
        self.ropes.clear();
        for layer in &mut self.layers {
            layer.rope = None;
        }
    }

    /// Sets the factor on the attention scores of every layer.
    pub fn set_attention_scale(&mut self, scale: f32) {
        for layer in &mut self.layers {
            layer.attention_scale = scale;
        }
    }

    /// Rows of the table of learned positions: those before the first position included.
    pub fn position_rows(&self) -> u64 {
        let padding = self.encoder.and_then(|encoder| encoder.padding);
        self.max_positions + padding.map_or(0, |padding| u64::from(padding) + 1)
    }

    /// Returns the number of layers with a KV cache of their own.
    pub fn cached_layers(&self) -> usize {
        let layers = self.layers.iter();
        layers.filter(|layer| layer.has_cache()).count()
    }

    /// Width of a layer's dense feed-forward network.
    pub fn dense_width(&self, layer: usize) -> u64 {
        let own = self.layers.get(layer);
        let own = own.and_then(|layer| layer.intermediate_size);
        own.unwrap_or(self.intermediate_size)
    }

    /// Bytes of KV cache that one position takes over all layers with a cache. The layers of an
    /// encoder share one cache.
    pub fn kv_bytes_per_position(&self, format: CacheFormat) -> u64 {
        if self.encoder.is_some() {
            return self.layer_cache_bytes(0, format);
        }
        let layers = self.layers.iter().enumerate();
        let cached = layers.filter(|(_, layer)| layer.has_cache());
        cached
            .map(|(layer, _)| self.layer_cache_bytes(layer, format))
            .fold(0, u64::saturating_add)
    }

    /// Bytes of a layer's keys for one position, and as many of its values, if the cache has them.
    pub fn kv_row_bytes(&self, layer: usize, format: CacheFormat) -> u64 {
        let CachedHeads {
            kv_heads, head_dim, ..
        } = self.cached_heads(layer);
        u64::from(kv_heads) * self.cache_format(format).head_words(head_dim) * 4
    }

    /// Bytes of a layer's KV cache for one position.
    pub fn layer_cache_bytes(&self, layer: usize, format: CacheFormat) -> u64 {
        let row = self.kv_row_bytes(layer, format);
        match self.cached_heads(layer).keys_only {
            true => row,
            false => 2 * row,
        }
    }

    /// The format in which the KV cache is stored if `format` is requested. An encoder's cache lasts
    /// for one run and is never compressed.
    pub fn cache_format(&self, format: CacheFormat) -> CacheFormat {
        match self.encoder {
            Some(_) => CacheFormat::F32,
            None => format,
        }
    }
}

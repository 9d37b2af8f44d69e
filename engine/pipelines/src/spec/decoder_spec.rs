//! The spec of a decoder or encoder: how it differs from Llama.

use wisp_graph::{Activation, CacheFormat, NormKind, NormSpec, ops::ClampedSwiglu};

use super::mixer::Mixer;
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
    /// KV heads. Each serves `heads / kv_heads` query heads.
    pub kv_heads: u32,
    /// Elements of a query, key or value head, at most 256.
    pub head_dim: u32,
    /// Projects queries, keys and values through low ranks (DeepSeek V2). Each head has keys and values of its own.
    pub latent: Option<LatentAttention>,
    /// All norms except those over queries and keys, which share the kind and epsilon.
    pub norm: NormSpec,
    /// Where a block's norms stand.
    pub norm_placement: NormPlacement,
    /// Whether queries and keys are normalized.
    pub qk_norm: QkNorm,
    /// True if the query projection also makes a gate for each head, behind its query, whose sigmoid
    /// multiplies the output of attention (Qwen3-Next).
    pub attention_gate: bool,
    /// The activation of the feed-forward network.
    pub activation: Activation,
    /// True for `down(activation(gate(x)) * up(x))`, false for `down(activation(up(x)))`.
    pub gated: bool,
    /// The mixture of experts that replaces the feed-forward network in layers with
    /// [`LayerSpec::moe`].
    pub moe: Option<MoeSpec>,
    /// Leading elements of a head for which frequencies are computed. If odd, one more rotates.
    pub rotary_dim: u32,
    /// True if neighbours `(2i, 2i + 1)` rotate together, false if halves `(i, i + n / 2)` do.
    pub rope_interleaved: bool,
    /// The rotary embeddings that layers select by index ([`LayerSpec::rope`]).
    pub ropes: Vec<RopeSettings>,
    /// The factor on queries that grows with their position. Layers that use it rotate whole heads.
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
    /// True if attention and feed-forward read the same input and are added together (GPT-J).
    pub parallel_residual: bool,
    /// True if the feed-forward of a parallel residual reads the norm before attention instead of
    /// one of its own (Cohere).
    pub shared_norm: bool,
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

/// What an encoder has besides a decoder's parts: a model that computes the hidden states of whole texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderSpec {
    /// True if a token attends only to itself and to earlier ones, as in a decoder that embeds texts; false if
    /// every token attends to the whole text.
    pub causal: bool,
    /// True if the embedding is normalized before the first block.
    pub embedding_norm: bool,
    /// Segment types, each with an embedding that is added to the token's; 0 if there are none.
    pub token_types: u64,
    /// The padding token, if learned positions start after its id (RoBERTa): the first token's
    /// position is `padding + 1`.
    pub padding: Option<u32>,
    /// The head that scores a text, which classifiers and rerankers have.
    pub score: Option<ScoreHead>,
}

impl EncoderSpec {
    /// Returns an encoder like BERT, but without segment types and a head: its embedding is normalized, and every
    /// token attends to the whole text.
    pub fn bidirectional() -> EncoderSpec {
        EncoderSpec {
            causal: false,
            embedding_norm: true,
            token_types: 0,
            padding: None,
            score: None,
        }
    }

    /// Returns a decoder that embeds texts.
    pub fn causal() -> EncoderSpec {
        EncoderSpec {
            causal: true,
            embedding_norm: false,
            ..EncoderSpec::bidirectional()
        }
    }
}

/// A head that scores a text by the hidden state of its first token or, where attention is causal, its last one:
/// perhaps a linear layer with an activation and a norm, and a linear layer with a row for each label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoreHead {
    /// The scores of a text: 1 for a reranker.
    pub labels: u64,
    /// The activation after the first linear layer; `None` if there is no such layer.
    pub activation: Option<ScoreActivation>,
    /// True if there is a norm after it.
    pub norm: bool,
    /// The tokens whose logits are the scores, if the output layer takes the place of the last linear layer: an
    /// answer that speaks for the text, and one against it (Qwen3-Reranker's `yes` and `no`).
    pub answers: Option<[u32; 2]>,
}

impl ScoreHead {
    /// Returns the head of BERT: without a norm, with the hyperbolic tangent.
    pub fn bert(labels: u64) -> ScoreHead {
        ScoreHead {
            labels,
            activation: Some(ScoreActivation::Tanh),
            norm: false,
            answers: None,
        }
    }

    /// Returns the head of decoders: one linear layer.
    pub fn linear(labels: u64) -> ScoreHead {
        ScoreHead {
            activation: None,
            ..ScoreHead::bert(labels)
        }
    }

    /// Returns a head of the logits of two answers, the affirmative one first.
    pub fn answers(tokens: [u32; 2]) -> ScoreHead {
        ScoreHead {
            answers: Some(tokens),
            ..ScoreHead::linear(2)
        }
    }
}

/// The activation of a [`ScoreHead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreActivation {
    /// The hyperbolic tangent (BERT, RoBERTa).
    Tanh,
    /// GELU (ModernBERT).
    Gelu,
}

/// How one block differs from another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerSpec {
    /// How the layer's tokens take in those before them.
    pub mixer: Mixer,
    /// Positions that a token attends to, itself included; `None` for all before it.
    pub window: Option<u32>,
    /// The index in [`DecoderSpec::ropes`] of the rotary embedding of queries and keys; `None` if
    /// they are not rotated.
    pub rope: Option<usize>,
    /// Factor on attention scores.
    pub attention_scale: f32,
    /// True if each query head has a sink: a learned score that joins its softmax (gpt-oss).
    pub sinks: bool,
    /// True if the feed-forward network is [`DecoderSpec::moe`].
    pub moe: bool,
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
}

/// A factor on queries that grows with their position, as in Ministral 3:
/// `1 + beta * ln(1 + floor(position / context))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryScaling {
    /// How fast the factor grows.
    pub beta: f32,
    /// The trained context, in positions, within which the factor is 1.
    pub context: f64,
}

impl QueryScaling {
    /// Returns the factor at a position.
    pub(crate) fn factor(self, position: u64) -> f64 {
        let contexts = (position as f64 / self.context).floor();
        1.0 + f64::from(self.beta) * (1.0 + contexts).ln()
    }
}

/// Multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2"): keys and values come from one vector of a low rank,
/// but for the elements of keys that rotate, which all heads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatentAttention {
    /// The rank of queries; `None` if they are projected at once.
    pub q_rank: Option<u64>,
    /// The rank of keys and values.
    pub kv_rank: u64,
    /// Elements of a value's head, at most those of a key's.
    pub value_dim: u32,
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
}

/// A mixture of experts in place of the feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoeSpec {
    /// Experts in a layer.
    pub experts: u32,
    /// Experts that each token is routed to.
    pub experts_per_token: u32,
    /// How the router's logits become scores.
    pub scoring: ExpertScoring,
    /// True if a bias is added to the scores to select experts, but not to weight them (DeepSeek V3).
    pub selection_bias: bool,
    /// True if the routing weights of the selected experts are rescaled to sum to 1.
    pub normalize: bool,
    /// Factor on the routing weights.
    pub scale: f32,
    /// Width of an expert's inner layer.
    pub intermediate_size: u64,
    /// The expert that every token is routed to besides.
    pub shared: Option<SharedExpert>,
    /// The groups of experts, of which a token goes only to the experts of the best (DeepSeek V2).
    pub groups: Option<ExpertGroups>,
    /// The gated product of experts that replaces the one with the model's activation (gpt-oss).
    pub clamped: Option<ClampedSwiglu>,
}

/// How a router's logits become the scores of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpertScoring {
    /// The softmax over all experts.
    Softmax,
    /// The sigmoid of each expert's logit.
    Sigmoid,
}

/// Groups of consecutive experts of equal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertGroups {
    /// The number of groups, a divisor of the number of experts.
    pub groups: u32,
    /// The groups whose experts a token may go to.
    pub chosen: u32,
    /// How many of a group's best experts are added up to the score of the group.
    pub best: u32,
}

/// The expert of a layer that every token is routed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedExpert {
    /// Width of its inner layer.
    pub intermediate_size: u64,
    /// True if its output is multiplied by the sigmoid of a linear layer (Qwen 1.5 MoE).
    pub gated: bool,
}

/// The most layers that a spec may have.
pub(super) const MAX_LAYERS: usize = 4096;

impl DecoderSpec {
    /// Makes the spec of a Llama: RMS norms before attention and feed-forward, rotary embeddings
    /// over whole heads with base 10,000, a gated SiLU feed-forward network, an untied output layer.
    pub fn llama(sizes: DecoderSizes) -> DecoderSpec {
        let layer = LayerSpec {
            mixer: Mixer::Attention,
            window: None,
            rope: Some(0),
            attention_scale: 1.0 / (sizes.head_dim as f32).sqrt(),
            sinks: false,
            moe: false,
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
            attention_gate: false,
            activation: Activation::Silu,
            gated: true,
            moe: None,
            rotary_dim: sizes.head_dim,
            rope_interleaved: false,
            ropes: vec![RopeSettings {
                theta: 10_000.0,
                scaling: RopeScaling::None,
            }],
            query_scaling: None,
            max_positions: sizes.max_positions,
            learned_positions: false,
            attention_softcap: 0.0,
            logit_softcap: 0.0,
            embedding_multiplier: 1.0,
            residual_multiplier: 1.0,
            logit_multiplier: 1.0,
            parallel_residual: false,
            shared_norm: false,
            tied: false,
            encoder: None,
        }
    }

    /// Outputs of the query projection: queries and, where there are any, gates.
    pub(crate) fn query_rows(&self) -> u64 {
        let parts = if self.attention_gate { 2 } else { 1 };
        parts * u64::from(self.heads) * u64::from(self.head_dim)
    }

    /// Makes a decoder compute the hidden states of whole texts, as encoders do. An encoder stays as it is.
    pub fn embed_texts(&mut self) {
        self.encoder.get_or_insert(EncoderSpec::causal());
    }

    /// Elements of a head that rotate: [`Self::rotary_dim`], rounded up to an even number.
    pub fn rotated(&self) -> u32 {
        self.rotary_dim.next_multiple_of(2)
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

    /// Returns the number of layers with attention.
    pub fn attention_layers(&self) -> usize {
        let layers = self.layers.iter();
        layers
            .filter(|layer| layer.mixer == Mixer::Attention)
            .count()
    }

    /// Bytes of KV cache that one position takes over all layers with attention. The layers of an
    /// encoder share one cache.
    pub fn kv_bytes_per_position(&self, format: CacheFormat) -> u64 {
        let caches = match self.encoder {
            Some(_) => 1,
            None => self.attention_layers() as u64,
        };
        caches * 2 * self.kv_row_bytes(format)
    }

    /// Bytes of one layer's keys for one position, and as many of its values.
    pub fn kv_row_bytes(&self, format: CacheFormat) -> u64 {
        u64::from(self.kv_heads) * self.cache_format(format).head_words(self.head_dim) * 4
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

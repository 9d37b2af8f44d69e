//! What a model computes, as data: a [`DecoderSpec`] of orthogonal parts, and the names of its
//! tensors in a checkpoint.
//!
//! One decoder serves every architecture. An [architecture](crate::architectures) maps a
//! checkpoint's configuration to a spec; the graph of the decoder is built from the spec alone. An
//! encoder is a decoder whose attention is bidirectional ([`DecoderSpec::encoder`]).
//!
//! ```
//! use wisp_pipelines::spec::{DecoderSizes, DecoderSpec, QkNorm};
//!
//! let sizes = DecoderSizes {
//!     vocab_size: 32_000,
//!     hidden_size: 2048,
//!     intermediate_size: 5632,
//!     layers: 22,
//!     heads: 32,
//!     kv_heads: 4,
//!     head_dim: 64,
//!     max_positions: 2048,
//! };
//! // Llama, with a norm on each head's query and key, and a window in every other layer.
//! let mut spec = DecoderSpec::llama(sizes);
//! spec.qk_norm = QkNorm::PerHead;
//! spec.set_windows(Some(512), |layer| layer % 2 == 0);
//! assert!(spec.check().is_ok());
//! ```

mod check;
mod context;
mod decoder_spec;
mod encoder;
mod error;
mod feed_forward;
mod fused_experts;
mod lora_layout;
mod mixer;
mod residual;
pub(crate) mod row_order;
mod state;
mod tensor_names;

pub(crate) use check::check_layers;
pub use decoder_spec::{
    CachedHeads, DecoderSizes, DecoderSpec, HeadSizes, LatentAttention, LayerSpec, NormPlacement,
    QkNorm, QueryScaling, RopeSettings,
};
pub use encoder::{EncoderSpec, ScoreActivation, ScoreHead};
pub use error::SpecError;
pub use feed_forward::{
    ExpertGroups, ExpertScoring, FeedForward, FeedForwardGate, MoeSpec, SharedExpert,
};
pub(crate) use fused_experts::{ExpertPart, FusedExperts};
pub use lora_layout::LoraLayout;
pub(crate) use lora_layout::{LORA_GROUPS, LoraGroup};
pub use mixer::{DeltaNetSpec, Mamba2Norm, Mamba2Spec, Mixer};
pub use residual::{AltUp, LayerEmbeddings, LayerMultipliers};
pub(crate) use tensor_names::in_layer;
pub use tensor_names::{GateUpOrder, QkvLayout, TensorNames};
pub use wisp_graph::{Activation, CacheFormat, NormKind, NormSpec, ops::ClampedSwiglu};

pub use crate::rope::RopeScaling;

//! What the graph of a decoder depends on besides its spec.

use wisp_graph::CacheFormat;

use crate::{
    config::LayerEmbeddingsPlacement, limits::ReturnHiddenStates, spec::LoraLayout,
    window_rings::WindowRings,
};

/// What the graph of a decoder depends on besides its spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecoderLayout {
    /// Positions in a page of the KV cache.
    pub page_size: u32,
    /// Positions that the tables of rotations cover.
    pub max_length: u64,
    /// The buffers for low-rank adapters; ignored for an encoder.
    pub lora: Option<LoraLayout>,
    /// How the KV cache stores its elements. An encoder's stores them uncompressed.
    pub cache_format: CacheFormat,
    /// The ring buffers of layers with a sliding window. Without them, these layers cache every
    /// position, as full-attention layers do.
    pub rings: Option<WindowRings>,
    /// Where the embeddings by layer are. On the host, the graph has an input for those of a step's tokens.
    pub layer_embeddings: LayerEmbeddingsPlacement,
    /// The hidden states that a decoder returns beside its logits.
    pub hidden_states: ReturnHiddenStates,
}

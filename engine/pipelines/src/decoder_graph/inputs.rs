//! The values that every block of the graph reads besides the residual stream.

use wisp_graph::{CacheFormat, ValueId};

use super::error::DecoderError;
use crate::spec::SpecError;

/// How a layer's KV cache is paged.
#[derive(Clone, Copy)]
pub(super) struct Paging {
    /// The page table, `u32 [batch, entries]`.
    pub table: ValueId,
    /// Positions in a page.
    pub page_size: u32,
    /// The symbolic dimension that counts the pages of the cache.
    pub pages: &'static str,
}

/// What an encoder's blocks read.
#[derive(Clone, Copy)]
pub(super) struct EncoderInputs {
    /// Tokens of each text, `u32 [batch]`, if tokens attend to later ones.
    pub lengths: Option<ValueId>,
    /// The cache of keys and values that all blocks share.
    pub caches: [ValueId; 2],
}

/// The values that every block reads besides the residual stream.
pub(super) struct BlockInputs {
    /// The sequence and position of each token, `u32 [tokens, 2]`.
    pub index: ValueId,
    /// The part of each sequence in the batch and the rows of its recurrent state, `u32 [batch, 4]`, if
    /// layers have one.
    pub spans: Option<ValueId>,
    /// The paging of layers that cache whole texts.
    pub paging: Paging,
    /// The paging of layers with a window, if they have rings.
    pub rings: Option<Paging>,
    /// `None` for a decoder.
    pub encoder: Option<EncoderInputs>,
    /// The tables of rotations, indexed like [`DecoderSpec::ropes`](crate::spec::DecoderSpec::ropes),
    /// and after them one that rotates nothing.
    pub rope_tables: Vec<ValueId>,
    /// The tables of rotations of queries, which are those of keys unless queries are scaled by
    /// their position.
    pub query_tables: Vec<ValueId>,
    /// The embeddings of all layers, `f32 [tokens, layers * width]`, if the model has them.
    pub layer_embeddings: Option<ValueId>,
    /// How the KV cache stores its elements.
    pub format: CacheFormat,
    /// Tokens of a sequence at most.
    pub max_length: u64,
}

impl BlockInputs {
    /// Returns the spans, which a decoder has if layers have a recurrent state.
    pub fn spans(&self) -> Result<ValueId, DecoderError> {
        self.spans.ok_or(SpecError::RecurrentEncoder.into())
    }
}

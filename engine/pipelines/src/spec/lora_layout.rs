//! The device buffers that hold low-rank adapters.

use super::{
    decoder_spec::{DecoderSpec, HeadSizes},
    feed_forward::FeedForwardGate,
};

/// The size of the buffers that hold low-rank adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoraLayout {
    /// Adapters that can be loaded at the same time.
    pub slots: u64,
    /// The rank to which every adapter is padded with zeros.
    pub rank: u64,
}

impl LoraLayout {
    /// Bytes of device memory that the buffers take, whether adapters are loaded or not.
    pub fn bytes(self, spec: &DecoderSpec) -> u64 {
        self.buffer_bytes(spec).fold(0, u64::saturating_add)
    }

    /// Bytes of the largest buffer.
    pub(crate) fn largest_buffer(self, spec: &DecoderSpec) -> u64 {
        self.buffer_bytes(spec).max().unwrap_or(0)
    }

    fn buffer_bytes(self, spec: &DecoderSpec) -> impl Iterator<Item = u64> {
        let layers = 0..spec.layers.len();
        let groups = layers.flat_map(move |layer| {
            let groups = LORA_GROUPS.iter().map(move |group| (group, layer));
            groups.filter(move |(group, _)| group.is_in(spec, layer))
        });
        let shapes = groups.flat_map(move |(group, layer)| group.shapes(spec, self, layer));
        shapes.map(|shape| shape.into_iter().fold(4, u64::saturating_mul))
    }
}

/// Projections of a block whose adapters are computed together, because they read the same input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LoraGroup {
    /// Queries, keys and values.
    Qkv,
    /// Attention's output projection.
    O,
    /// Gate and up projection, or the up projection alone.
    GateUp,
    /// The down projection.
    Down,
}

/// All groups of a block.
pub(crate) const LORA_GROUPS: [LoraGroup; 4] = [
    LoraGroup::Qkv,
    LoraGroup::O,
    LoraGroup::GateUp,
    LoraGroup::Down,
];

impl LoraGroup {
    /// True if a layer has the group's projections. A layer with experts has no dense feed-forward
    /// network, one with another mixer no attention, and latent attention and layers whose values are their keys have other
    /// projections of queries, keys and values.
    pub fn is_in(self, spec: &DecoderSpec, layer: usize) -> bool {
        let Some(layer) = spec.layers.get(layer) else {
            return false;
        };
        let attends = layer.mixer.attends();
        match self {
            LoraGroup::Qkv => {
                let projects = layer.shared_kv.is_none() && !layer.values_are_keys;
                attends && spec.latent.is_none() && projects
            }
            LoraGroup::O => attends,
            LoraGroup::GateUp | LoraGroup::Down => layer.feed_forward.is_dense(),
        }
    }

    /// Returns the width of the input that the projections share and the width of each one's output.
    pub fn widths(self, spec: &DecoderSpec, layer: usize) -> (u64, Vec<u64>) {
        let HeadSizes { kv_heads, head_dim } = spec.head_sizes(layer);
        let kv = u64::from(kv_heads) * u64::from(head_dim);
        let (hidden, inner) = (spec.hidden_size, spec.dense_width(layer));
        match self {
            LoraGroup::Qkv => (hidden, vec![spec.query_rows(layer), kv, kv]),
            LoraGroup::O => {
                let value = spec.latent.map_or(head_dim, |latent| latent.value_dim);
                let width = u64::from(spec.heads) * u64::from(value);
                (width, vec![hidden])
            }
            LoraGroup::GateUp if spec.gate == FeedForwardGate::Projected => {
                (hidden, vec![inner, inner])
            }
            LoraGroup::GateUp => (hidden, vec![inner]),
            LoraGroup::Down => (inner, vec![hidden]),
        }
    }

    /// Returns the shapes of a layer's two buffers: A `[slots, projections * rank, input]` and B
    /// `[slots, rank, outputs]`, which includes the adapters' scale.
    pub fn shapes(self, spec: &DecoderSpec, layout: LoraLayout, layer: usize) -> [[u64; 3]; 2] {
        let LoraLayout { slots, rank } = layout;
        let (input, outputs) = self.widths(spec, layer);
        let rows = rank.saturating_mul(outputs.len() as u64);
        [[slots, rows, input], [slots, rank, outputs.iter().sum()]]
    }

    /// Returns the names of a layer's two buffers, A and B.
    pub fn buffers(self, layer: usize) -> [String; 2] {
        let group = match self {
            LoraGroup::Qkv => "qkv",
            LoraGroup::O => "o",
            LoraGroup::GateUp => "gate_up",
            LoraGroup::Down => "down",
        };
        ["a", "b"].map(|half| format!("lora.{group}.{half}.{layer}"))
    }
}

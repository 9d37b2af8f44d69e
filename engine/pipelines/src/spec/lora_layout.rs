//! The buffers that hold low-rank adapters on a device.

use super::decoder_spec::DecoderSpec;

/// Room for adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoraLayout {
    /// Adapters at the same time.
    pub slots: u64,
    /// Rank that they are padded to.
    pub rank: u64,
}

impl LoraLayout {
    fn shapes(self, spec: &DecoderSpec) -> impl Iterator<Item = [u64; 3]> {
        let groups = (0..spec.layers.len()).flat_map(move |layer| {
            let there = LORA_GROUPS.iter();
            there.filter(move |group| group.is_in(spec, layer))
        });
        groups.flat_map(move |group| group.shapes(spec, self))
    }

    /// Bytes of device memory that all adapters take, whether they are loaded or not.
    pub fn bytes(self, spec: &DecoderSpec) -> u64 {
        self.shapes(spec).map(bytes).fold(0, u64::saturating_add)
    }

    /// Bytes of the largest buffer.
    pub fn largest_buffer(self, spec: &DecoderSpec) -> u64 {
        self.shapes(spec).map(bytes).max().unwrap_or(0)
    }
}

/// Bytes of a buffer of `f32`.
fn bytes(shape: [u64; 3]) -> u64 {
    shape.into_iter().fold(4, u64::saturating_mul)
}

/// Projections of a block whose adapters are computed together: they read the same input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoraGroup {
    /// Queries, keys and values.
    Qkv,
    /// Attention's output.
    O,
    /// Gate and up, or up alone.
    GateUp,
    /// The feed-forward's output.
    Down,
}

/// All groups.
pub const LORA_GROUPS: [LoraGroup; 4] = [
    LoraGroup::Qkv,
    LoraGroup::O,
    LoraGroup::GateUp,
    LoraGroup::Down,
];

impl LoraGroup {
    /// True if a layer has the group's projections: one with experts has no plain feed-forward.
    pub fn is_in(self, spec: &DecoderSpec, layer: usize) -> bool {
        let moe = spec.layers.get(layer).is_none_or(|layer| layer.moe);
        matches!(self, LoraGroup::Qkv | LoraGroup::O) || !moe
    }

    /// The width of what the projections read, and of what each makes.
    pub fn widths(self, spec: &DecoderSpec) -> (u64, Vec<u64>) {
        let head_dim = u64::from(spec.head_dim);
        let [q, kv] = [spec.heads, spec.kv_heads].map(|heads| u64::from(heads) * head_dim);
        let (hidden, ffn) = (spec.hidden_size, spec.intermediate_size);
        match self {
            LoraGroup::Qkv => (hidden, vec![q, kv, kv]),
            LoraGroup::O => (q, vec![hidden]),
            LoraGroup::GateUp if spec.gated => (hidden, vec![ffn, ffn]),
            LoraGroup::GateUp => (hidden, vec![ffn]),
            LoraGroup::Down => (ffn, vec![hidden]),
        }
    }

    /// Shapes of the buffers: `[slots, projections * rank, input]` and `[slots, rank, outputs]`. In the
    /// second the adapters' scale is part of the numbers.
    pub fn shapes(self, spec: &DecoderSpec, layout: LoraLayout) -> [[u64; 3]; 2] {
        let LoraLayout { slots, rank } = layout;
        let (input, outputs) = self.widths(spec);
        let low = rank.saturating_mul(outputs.len() as u64);
        [[slots, low, input], [slots, rank, outputs.iter().sum()]]
    }

    /// The names of a layer's buffers.
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

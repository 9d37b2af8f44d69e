//! How a layer's tokens take in those before them, and the state that it keeps of a sequence.

use std::ops::Range;

/// How a layer's tokens take in those before them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mixer {
    /// Attention over the KV cache.
    Attention,
    /// A gated short convolution (LFM2): a linear layer makes a gate, a second gate and a value of
    /// [`DecoderSpec::hidden_size`](super::DecoderSpec::hidden_size) elements each; `gate * value` is convolved with the tokens before
    /// it, multiplied by the second gate, and projected.
    ShortConv {
        /// Tokens that an element depends on, its own included.
        width: u32,
    },
    /// A gated delta net (Qwen3-Next).
    DeltaNet(DeltaNetSpec),
    /// Mamba 2 (Granite 4).
    Mamba2(Mamba2Spec),
    /// Attention and Mamba 2 side by side, which read the same norm and are added together (Falcon-H1).
    AttentionAndMamba2(Mamba2Spec),
    /// None: the layer is a feed-forward network alone (Nemotron-H).
    None,
}

/// A Mamba 2 mixer: inputs and their uses are convolved with those before them, and go through the
/// [scan](wisp_graph::ops::Mamba2Scan). The result is multiplied by the SiLU of a gate, normalized in as
/// many parts as there are groups, and projected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mamba2Spec {
    /// Groups of heads that are added and read alike.
    pub groups: u32,
    /// Heads, a multiple of the groups.
    pub heads: u32,
    /// Rows of a head's matrix, at most 256.
    pub state_dim: u32,
    /// Elements of a head.
    pub head_dim: u32,
    /// Tokens that an element of the convolution depends on, its own included.
    pub width: u32,
    /// Where the norm of the result stands.
    pub norm: Mamba2Norm,
    /// The least and the greatest step of the decay, after its softplus.
    pub step_limit: [f32; 2],
    /// Factors on the parts of the input projection: gates, inputs, where they are added, how they are read, and
    /// steps (Falcon-H1).
    pub multipliers: [f32; 5],
}

/// Where the norm of a Mamba 2 mixer's result stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mamba2Norm {
    /// There is none.
    None,
    /// On the result, before it is multiplied by the gate.
    BeforeGate,
    /// On the product of the result and the gate.
    AfterGate,
}

impl Mamba2Spec {
    /// The range of steps that are not limited.
    pub const ANY_STEP: [f32; 2] = [0.0, f32::INFINITY];

    /// Returns the elements of all heads.
    pub(crate) fn inner(&self) -> u64 {
        u64::from(self.heads) * u64::from(self.head_dim)
    }

    /// Returns the channels that are convolved: all heads, and for each group where it is added and how it
    /// is read.
    pub(crate) fn channels(&self) -> u64 {
        self.inner() + 2 * u64::from(self.groups) * u64::from(self.state_dim)
    }
}

/// A gated delta net: queries, keys and values are convolved with those before them, and go through
/// the [gated delta rule](wisp_graph::ops::GatedDeltaRule). Each head's result is normalized, multiplied
/// by the SiLU of a gate, and projected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaNetSpec {
    /// Heads of queries and keys. Each serves `v_heads / k_heads` heads of values.
    pub k_heads: u32,
    /// Heads of values.
    pub v_heads: u32,
    /// Elements of a head of queries or keys, at most 256.
    pub k_dim: u32,
    /// Elements of a head of values.
    pub v_dim: u32,
    /// Tokens that an element of the convolution depends on, its own included.
    pub width: u32,
    /// True if the checkpoint stores the first head of values of each head of keys, then the second, and so on, instead
    /// of all those of a head of keys together (GGUF).
    pub tiled: bool,
}

impl DeltaNetSpec {
    /// Returns the rows of each head of values where they are tiled, from their order by heads of keys or from tiles: as a
    /// view takes them to store heads of `size` rows in the other order.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn tiled_rows(&self, size: u64) -> Vec<Range<u64>> {
        let (keys, per_key) = (self.k_heads, self.v_heads / self.k_heads.max(1));
        let heads = (0..per_key).flat_map(|i| (0..keys).map(move |key| key * per_key + i));
        let starts = heads.map(|head| u64::from(head) * size);
        starts.map(|start| start..start + size).collect()
    }

    /// Returns the rows of heads of values in the order of the heads of keys, where the checkpoint stores heads of `size`
    /// rows.
    pub(crate) fn value_rows(&self, size: u64) -> Vec<Range<u64>> {
        let (keys, per_key) = (self.k_heads, self.v_heads / self.k_heads.max(1));
        if !self.tiled {
            return std::iter::once(0..u64::from(self.v_heads) * size).collect();
        }
        let heads = (0..keys).flat_map(|key| (0..per_key).map(move |i| i * keys + key));
        let starts = heads.map(|head| u64::from(head) * size);
        starts.map(|start| start..start + size).collect()
    }

    /// Returns the rows of queries, keys, values and gates of a projection that stores, for each head of keys, its own of
    /// each.
    pub(crate) fn fused_rows(&self) -> [Vec<Range<u64>>; 4] {
        let of_values = self.values() / u64::from(self.k_heads.max(1));
        let k_dim = u64::from(self.k_dim);
        self.rows_by_key([k_dim, k_dim, of_values, of_values])
    }

    /// Returns the rows of each part of a projection that stores, for each head of keys, `sizes` rows of each part.
    pub(crate) fn rows_by_key<const N: usize>(&self, sizes: [u64; N]) -> [Vec<Range<u64>>; N] {
        let all: u64 = sizes.iter().sum();
        let mut before = 0;
        sizes.map(|size| {
            let offset = before;
            before += size;
            let starts = (0..u64::from(self.k_heads)).map(|head| head * all + offset);
            starts.map(|start| start..start + size).collect()
        })
    }

    /// Returns the elements of all queries, which are as many as those of all keys.
    pub(crate) fn keys(&self) -> u64 {
        u64::from(self.k_heads) * u64::from(self.k_dim)
    }

    /// Returns the elements of all values.
    pub(crate) fn values(&self) -> u64 {
        u64::from(self.v_heads) * u64::from(self.v_dim)
    }
}

/// One tensor of a layer's recurrent state, as one sequence has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateTensor {
    /// The name of the buffer that holds it for all sequences, without the layer.
    pub name: &'static str,
    /// Its shape: `f32`.
    pub shape: [u64; 2],
}

impl StateTensor {
    /// Returns the name of a layer's buffer.
    pub fn buffer(&self, layer: usize) -> String {
        format!("state.{}.{layer}", self.name)
    }

    /// Returns the bytes of one sequence's tensor.
    pub fn bytes(&self) -> u64 {
        self.shape.into_iter().fold(4, u64::saturating_mul)
    }
}

/// Returns the tokens that a convolution of `channels` channels keeps.
fn conv_state(width: u32, channels: u64) -> StateTensor {
    StateTensor {
        name: "conv",
        shape: [u64::from(width).saturating_sub(1), channels],
    }
}

/// Returns a matrix for each head.
fn matrices(heads: u32, [rows, cols]: [u32; 2]) -> StateTensor {
    StateTensor {
        name: "matrices",
        shape: [u64::from(heads) * u64::from(rows), cols.into()],
    }
}

impl Mixer {
    /// Returns the Mamba 2 mixer, if the layer has one.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn mamba2(self) -> Option<Mamba2Spec> {
        match self {
            Mixer::Mamba2(mamba) | Mixer::AttentionAndMamba2(mamba) => Some(mamba),
            _ => None,
        }
    }

    /// True if the layer attends to a KV cache.
    pub fn attends(self) -> bool {
        matches!(self, Mixer::Attention | Mixer::AttentionAndMamba2(_))
    }

    /// Rows of the matrices of a sequence's state; none for layers without any.
    pub(crate) fn matrix_rows(self) -> Option<u32> {
        match self {
            Mixer::DeltaNet(net) => Some(net.k_dim),
            Mixer::Mamba2(mamba) | Mixer::AttentionAndMamba2(mamba) => Some(mamba.state_dim),
            Mixer::Attention | Mixer::ShortConv { .. } | Mixer::None => None,
        }
    }

    /// Returns the tensors of a sequence's state in one layer of a model of this width; none for attention.
    pub(crate) fn state(self, hidden_size: u64) -> Vec<StateTensor> {
        match self {
            Mixer::Attention | Mixer::None => Vec::new(),
            Mixer::ShortConv { width } => vec![conv_state(width, hidden_size)],
            Mixer::DeltaNet(net) => vec![
                conv_state(net.width, 2 * net.keys() + net.values()),
                matrices(net.v_heads, [net.k_dim, net.v_dim]),
            ],
            Mixer::Mamba2(mamba) | Mixer::AttentionAndMamba2(mamba) => vec![
                conv_state(mamba.width, mamba.channels()),
                matrices(mamba.heads, [mamba.state_dim, mamba.head_dim]),
            ],
        }
    }
}

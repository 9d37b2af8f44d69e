//! How a layer's tokens take in those before them, and the state that it keeps of a sequence.

/// How a layer's tokens take in those before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

/// A Mamba 2 mixer: inputs and their uses are convolved with those before them, and go through the
/// [scan](wisp_graph::ops::Mamba2Scan). The result is multiplied by the SiLU of a gate, normalized in as
/// many parts as there are groups, and projected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

impl Mamba2Spec {
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
}

impl DeltaNetSpec {
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
    /// Returns the tensors of a sequence's state in one layer of a model of this width; none for attention.
    pub(crate) fn state(self, hidden_size: u64) -> Vec<StateTensor> {
        match self {
            Mixer::Attention => Vec::new(),
            Mixer::ShortConv { width } => vec![conv_state(width, hidden_size)],
            Mixer::DeltaNet(net) => vec![
                conv_state(net.width, 2 * net.keys() + net.values()),
                matrices(net.v_heads, [net.k_dim, net.v_dim]),
            ],
            Mixer::Mamba2(mamba) => vec![
                conv_state(mamba.width, mamba.channels()),
                matrices(mamba.heads, [mamba.state_dim, mamba.head_dim]),
            ],
        }
    }
}

//! Factors within a layer, versions of the residual stream, and embeddings of layers.

/// Factors on what goes into the parts of a layer and on what comes out (Falcon-H1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerMultipliers {
    /// On the input of attention.
    pub attention_in: f32,
    /// On the output of attention.
    pub attention_out: f32,
    /// On the input of Mamba 2.
    pub mamba_in: f32,
    /// On the output of Mamba 2.
    pub mamba_out: f32,
    /// On the gate of a feed-forward network, before the activation.
    pub gate: f32,
    /// On the output of a feed-forward network.
    pub down: f32,
}

impl LayerMultipliers {
    /// Factors that change nothing.
    pub const ONE: LayerMultipliers = LayerMultipliers {
        attention_in: 1.0,
        attention_out: 1.0,
        mamba_in: 1.0,
        mamba_out: 1.0,
        gate: 1.0,
        down: 1.0,
    };

    /// Returns each factor with what it is.
    pub(super) fn named(&self) -> [(&'static str, f32); 6] {
        [
            ("the factor on attention's input", self.attention_in),
            ("the factor on attention's output", self.attention_out),
            ("the factor on Mamba's input", self.mamba_in),
            ("the factor on Mamba's output", self.mamba_out),
            ("the factor on the feed-forward's gate", self.gate),
            ("the factor on the feed-forward's output", self.down),
        ]
    }
}

/// Alternating updates (Baykal et al. 2023): the residual stream has several versions. A layer predicts all of them,
/// computes one, and corrects the others by what it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AltUp {
    /// Versions of the residual stream.
    pub inputs: u32,
    /// The version that layers compute.
    pub active: u32,
    /// True if the corrected version is multiplied by a weight before the layer's embedding is added.
    pub scaled: bool,
}

/// Embeddings of tokens for each layer, to which a projection of the first layer's input is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerEmbeddings {
    /// Elements of one layer's embedding.
    pub width: u64,
    /// Tokens that have embeddings; others have that of token 0.
    pub vocab_size: u64,
}

impl LayerEmbeddings {
    /// Returns the factor on the table's elements: they are scaled like the model's own embeddings.
    pub fn scale(self) -> f32 {
        (self.width as f32).sqrt()
    }
}

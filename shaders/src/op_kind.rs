//! The ops whose kernels compute and read most, by their names.

/// What an op computes, as far as estimates of its work and of the bytes that it reads depend on it.
///
/// ```
/// use wisp_shaders::{AttentionKind, OpKind};
///
/// assert_eq!(OpKind::of("matmul_int8.q4_k"), OpKind::Matmul { gated: false, int8: true });
/// let attention = OpKind::Attention { kind: AttentionKind::Tiled, bidirectional: true };
/// assert_eq!(OpKind::of("full_attention_tiled.f16.head64"), attention);
/// assert_eq!(OpKind::of("softmax"), OpKind::Other);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Rows times all of a matrix of weights.
    Matmul {
        /// Whether a second matrix gates the product.
        gated: bool,
        /// Whether the rows are signed bytes.
        int8: bool,
    },
    /// Rows times the matrices of the experts that each is routed to.
    ExpertMatmul {
        /// Whether the rows are signed bytes.
        int8: bool,
    },
    /// Single rows of a matrix of weights.
    Embed,
    /// Attention over a KV cache.
    Attention {
        /// How the op's kernels divide their work.
        kind: AttentionKind,
        /// Whether tokens also see those after them.
        bidirectional: bool,
    },
    /// Products of two tensors of activations.
    BatchMatmul,
    /// A convolution over two dimensions.
    Conv2d,
    /// Any other op.
    Other,
}

/// How the kernels of an op of attention divide their work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionKind {
    /// A head of a token reads all positions that it sees.
    ByToken,
    /// Tiles of tokens read the positions together.
    Tiled,
    /// The cache is split into chunks, each read for several heads of a KV head.
    Split,
    /// As [`Self::Split`], of heads of more than 256 elements.
    SplitWide,
}

impl OpKind {
    /// Returns the kind of an op, given its name, with or without its encoding or cache format, or the name of one of its
    /// kernels.
    pub fn of(name: &str) -> OpKind {
        let op = name.split('.').next().unwrap_or_default();
        let attention = |kind| OpKind::Attention {
            kind,
            bidirectional: op.starts_with("full_"),
        };
        match op {
            "matmul" | "matmul_gated" | "matmul_int8" | "matmul_gated_int8" => OpKind::Matmul {
                gated: op.starts_with("matmul_gated"),
                int8: op.ends_with("_int8"),
            },
            "matmul_experts" => OpKind::ExpertMatmul { int8: false },
            "matmul_experts_int8" => OpKind::ExpertMatmul { int8: true },
            "embed" => OpKind::Embed,
            "attention" | "full_attention" => attention(AttentionKind::ByToken),
            "attention_tiled" | "full_attention_tiled" => attention(AttentionKind::Tiled),
            "attention_split" => attention(AttentionKind::Split),
            "attention_split_wide" => attention(AttentionKind::SplitWide),
            "batch_matmul" => OpKind::BatchMatmul,
            "conv2d" => OpKind::Conv2d,
            _ => OpKind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_product_and_every_attention_over_a_cache_has_a_kind() {
        for kernel in crate::kernels() {
            let op = kernel.op.split('.').next().unwrap();
            let has_kind = op.contains("matmul")
                || (op.contains("attention") && op != "attention_combine")
                || ["embed", "conv2d"].contains(&op);
            assert_eq!(OpKind::of(kernel.op) != OpKind::Other, has_kind, "{op}");
            assert_eq!(OpKind::of(kernel.op), OpKind::of(kernel.name), "{op}");
        }
    }
}

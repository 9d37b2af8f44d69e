//! Why a spec cannot be built.

/// Why a [`DecoderSpec`](super::DecoderSpec) describes no model that can be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// Occurs when a size is zero or too large.
    #[error("{what} is {size}; 1 to {max} are supported")]
    Size {
        /// The size, in words.
        what: &'static str,
        /// The size that the spec has.
        size: u64,
        /// The largest value that is supported.
        max: u64,
    },
    /// Occurs when query heads cannot be divided evenly among KV heads.
    #[error("{heads} query heads cannot be divided evenly among {kv_heads} KV heads")]
    UnevenHeads {
        /// Query heads.
        heads: u32,
        /// KV heads.
        kv_heads: u32,
    },
    /// Occurs when more elements are to rotate than a head has, or none.
    #[error("{rotary_dim} of {head_dim} elements of a head cannot rotate")]
    RotaryDim {
        /// Elements that are to rotate.
        rotary_dim: u32,
        /// Elements of a head.
        head_dim: u32,
    },
    /// Occurs when a layer selects a rotary embedding that the spec does not have.
    #[error("a layer uses rotary embedding {index}, but there are only {count}")]
    MissingRope {
        /// The index that the layer has.
        index: usize,
        /// The number of rotary embeddings.
        count: usize,
    },
    /// Occurs when queries grow with their position, but only a part of each head rotates.
    #[error("queries are scaled by position, which is supported only where whole heads rotate")]
    PartialQueryScaling,
    /// Occurs when latent attention has sizes or parts that are not supported.
    #[error(
        "latent attention of rank {kv_rank} over heads of {head_dim} elements, of which {rotary_dim} rotate, and values of \
         {value_dim} is not supported: the rank is at most 512 and, with what rotates, 576; a part of a head rotates, an even \
         number of elements; and each head has keys of its own, without norms or gates"
    )]
    Latent {
        /// The rank of keys and values.
        kv_rank: u32,
        /// Elements of a value's head.
        value_dim: u32,
        /// Elements of a key's head.
        head_dim: u32,
        /// Elements of a key's head that rotate.
        rotary_dim: u32,
    },
    /// Occurs when experts cannot be divided evenly into groups, or a token's experts are more than its groups have.
    #[error(
        "{experts_per_token} of {experts} experts cannot be chosen from {chosen} of {groups} groups"
    )]
    ExpertGroups {
        /// Experts of each token.
        experts_per_token: u32,
        /// Experts of a layer.
        experts: u32,
        /// Groups of each token.
        chosen: u32,
        /// Groups of a layer.
        groups: u32,
    },
    /// Occurs when there are more layers than any model has.
    #[error("the model has more than {max} layers")]
    TooManyLayers {
        /// The largest number that is supported.
        max: usize,
    },
    /// Occurs when an epsilon, multiplier, soft cap, rotary base or factor is one with which nothing
    /// can be computed, such as NaN.
    #[error(
        "{what} is {value}; {:e} to {:e} are supported: the file is damaged or of an unknown variant",
        .range.0,
        .range.1
    )]
    Number {
        /// The number, in words.
        what: &'static str,
        /// The number that the spec has.
        value: f64,
        /// The least and the largest supported number.
        range: (f64, f64),
    },
    /// Occurs when an encoder has a layer that takes in only the tokens before a token.
    #[error("an encoder has a layer without attention, which is supported only in decoders")]
    RecurrentEncoder,
    /// Occurs when a layer has experts, but the spec has no mixture of experts.
    #[error("a layer has experts, but the model has none")]
    MissingExperts,
    /// Occurs when a token is to go to no expert, or to more than there are.
    #[error("a token cannot be routed to {experts_per_token} of {experts} experts")]
    ExpertsPerToken {
        /// Experts of each token.
        experts_per_token: u32,
        /// Experts of a layer.
        experts: u32,
    },
    /// Occurs when a decoder's function is asked of an encoder.
    #[error("an encoder computes no logits")]
    IsEncoder,
    /// Occurs when a layer shares the KV cache of a layer that does not come earlier or has no cache of its own, another
    /// window or other head sizes, or when layers of such a model cannot share caches.
    #[error(
        "layer {layer} shares the KV cache of layer {owner}, which must come earlier and have its own cache, the same \
         window and the same head sizes"
    )]
    SharedCache {
        /// The layer that shares another's cache.
        layer: usize,
        /// The layer whose cache it shares.
        owner: usize,
    },
    /// Occurs when a model with parallel residuals or norms after them has parts that need others.
    #[error(
        "AltUp, Laurel, embeddings of layers and experts beside a dense network need norms before a layer's parts, one after the other"
    )]
    ResidualParts,
    /// Occurs when layers of an encoder, or of a model with latent attention, have heads of sizes of their own.
    #[error(
        "layers with heads of their own sizes are supported only in decoders without latent attention"
    )]
    OwnHeads,
}

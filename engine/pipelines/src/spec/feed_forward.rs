//! The feed-forward networks of a decoder, and mixtures of experts.

use wisp_graph::ops::ClampedSwiglu;

/// The feed-forward network of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedForward {
    /// There is none: the layer is a mixer alone (Nemotron-H).
    None,
    /// One of [`DecoderSpec::intermediate_size`](super::DecoderSpec::intermediate_size).
    Dense,
    /// The mixture of experts [`DecoderSpec::moe`](super::DecoderSpec::moe).
    Experts,
    /// A dense network and the mixture of experts side by side, each between norms of its own, whose sum is the output
    /// (Gemma 4). Norms and router of the experts read the residual stream.
    DenseAndExperts,
}

impl FeedForward {
    /// True if the layer has the dense network.
    pub fn is_dense(self) -> bool {
        matches!(self, FeedForward::Dense | FeedForward::DenseAndExperts)
    }

    /// True if the layer has the mixture of experts.
    pub fn has_experts(self) -> bool {
        matches!(self, FeedForward::Experts | FeedForward::DenseAndExperts)
    }
}

/// What a feed-forward network multiplies the result of its activation by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedForwardGate {
    /// Nothing: `down(activation(up(x)))` (GPT-2).
    None,
    /// Its input: `down(activation(up(x)) * up(x))`, which with ReLU is its square (So et al. 2021, "Primer"; in
    /// Nemotron-H).
    Own,
    /// A second projection: `down(activation(gate(x)) * up(x))` (Shazeer 2020).
    Projected,
}

/// A mixture of experts in place of the feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoeSpec {
    /// Experts in a layer.
    pub experts: u32,
    /// Experts that each token is routed to.
    pub experts_per_token: u32,
    /// How the router's logits become scores.
    pub scoring: ExpertScoring,
    /// True if a bias is added to the scores to select experts, but not to weight them (DeepSeek V3).
    pub selection_bias: bool,
    /// True if the routing weights of the selected experts are rescaled to sum to 1.
    pub normalize: bool,
    /// Factor on the routing weights.
    pub scale: f32,
    /// True if the router reads a norm of its own, divided by the root of its width (Gemma 4).
    pub router_norm: bool,
    /// True if each expert has a stored factor on its routing weight (Gemma 4).
    pub expert_scales: bool,
    /// True if the routing weights multiply what experts read instead of what they write (Llama 4).
    pub weighted_input: bool,
    /// Width of an expert's inner layer.
    pub intermediate_size: u64,
    /// Width of what experts read and write, if projections before and after them change it (Nemotron 3).
    pub latent_size: Option<u64>,
    /// The expert that every token is routed to besides.
    pub shared: Option<SharedExpert>,
    /// The groups of experts, of which a token goes only to the experts of the best (DeepSeek V2).
    pub groups: Option<ExpertGroups>,
    /// The gated product of experts that replaces the one with the model's activation (gpt-oss).
    pub clamped: Option<ClampedSwiglu>,
}

impl MoeSpec {
    /// Returns a mixture of experts with a softmax router, whose routing weights sum to 1 (Mixtral).
    pub fn new(experts: u32, experts_per_token: u32, intermediate_size: u64) -> MoeSpec {
        MoeSpec {
            experts,
            experts_per_token,
            scoring: ExpertScoring::Softmax,
            selection_bias: false,
            normalize: true,
            scale: 1.0,
            router_norm: false,
            expert_scales: false,
            weighted_input: false,
            intermediate_size,
            latent_size: None,
            shared: None,
            groups: None,
            clamped: None,
        }
    }
}

/// How a router's logits become the scores of experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExpertScoring {
    /// The softmax over all experts.
    Softmax,
    /// The sigmoid of each expert's logit.
    Sigmoid,
    /// For each selected expert, the softmax over it and the less likely experts, without those whose logits are
    /// further below its own than this part of the larger magnitude (Liu et al. 2024, "GRIN").
    SparseMixer(f32),
}

/// Groups of consecutive experts of equal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertGroups {
    /// The number of groups, a divisor of the number of experts.
    pub groups: u32,
    /// The groups whose experts a token may go to.
    pub chosen: u32,
    /// How many of a group's best experts are added up to the score of the group.
    pub best: u32,
}

/// The expert of a layer that every token is routed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedExpert {
    /// Width of its inner layer.
    pub intermediate_size: u64,
    /// True if its output is multiplied by the sigmoid of a linear layer (Qwen 1.5 MoE).
    pub gated: bool,
}

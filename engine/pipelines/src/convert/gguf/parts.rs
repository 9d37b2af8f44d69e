//! The tensors that a block may have, and how conversion changes them apart from their names.

use super::factors::Scaled;
use crate::spec::{
    DecoderSpec, DeltaNetSpec, FeedForward, LayerSpec, Mixer, NormPlacement, TensorNames,
};

/// How a tensor changes apart from its name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    None,
    /// A norm: 1 is added to the weights if the model itself adds 1 to them.
    Norm,
    /// A fused projection of queries, keys and values: rows may be reordered.
    FusedQkv,
    /// A projection of experts: stacked if the checkpoint has one tensor per expert.
    Experts,
    /// A tensor whose rows are multiplied by the model's factors.
    Scaled(Scaled),
    /// A query or key projection with this number of heads: rows are reordered if GGUF interleaves them, and multiplied
    /// by factors as well.
    ScaledHeads(u32, Scaled),
    /// Values of a delta net behind this number of other rows, in heads of this number of rows each: heads are reordered
    /// if GGUF tiles them.
    ValueRows(u64, u64),
    /// A projection of a delta net's values: the same of columns.
    ValueColumns,
    /// Learned position embeddings: this number of first rows is dropped, because no position uses
    /// them.
    Positions(u64),
}

/// Selects the name of a tensor.
pub(super) type SelectName = fn(&TensorNames) -> &str;

/// Returns the tensors that a block may have, with their changes.
pub(super) fn block(spec: &DecoderSpec, layer: usize) -> Vec<(SelectName, Change)> {
    let Some(settings) = spec.layers.get(layer) else {
        return Vec::new();
    };
    let mut parts = Vec::new();
    if settings.mixer.attends() {
        parts.extend(attention(spec));
    }
    match settings.mixer {
        Mixer::Attention | Mixer::None => {}
        Mixer::ShortConv { .. } => parts.extend(SHORT_CONV),
        Mixer::Mamba2(_) | Mixer::AttentionAndMamba2(_) => parts.extend(MAMBA),
        Mixer::DeltaNet(net) => parts.extend(delta_net(net)),
    }
    match settings.feed_forward {
        FeedForward::None => {}
        FeedForward::Dense => parts.extend(DENSE),
        FeedForward::Experts => parts.extend(EXPERTS),
        FeedForward::DenseAndExperts => {
            parts.extend(DENSE);
            parts.extend(EXPERTS);
            parts.extend(SIDE_BY_SIDE_NORMS);
        }
    }
    parts.extend(norms(spec, settings));
    if spec.layer_embeddings.is_some() {
        parts.extend(LAYER_INPUT);
    }
    if spec.alt_up.is_some() {
        parts.extend(ALT_UP);
    }
    if spec.laurel_rank.is_some() {
        parts.extend(LAUREL);
    }
    parts
}

/// The vectors of a block that have complete names and do not change.
pub(super) const VECTORS: [SelectName; 6] = [
    |names| &names.selection_bias,
    |names| &names.sinks,
    |names| &names.layer_scalar,
    |names| &names.router_norm,
    |names| &names.expert_scales,
    |names| &names.alt_up_scale,
];

type Part = (SelectName, Change);

const SHORT_CONV: [Part; 3] = [
    (|names| &names.conv_in, Change::None),
    (|names| &names.conv, Change::None),
    (|names| &names.conv_out, Change::None),
];

const MAMBA: [Part; 4] = [
    (|names| &names.mamba_in, Change::Scaled(Scaled::MambaInput)),
    (|names| &names.mamba_conv, Change::None),
    (|names| &names.mamba_norm, Change::None),
    (
        |names| &names.mamba_out,
        Change::Scaled(Scaled::MambaOutput),
    ),
];

const DENSE: [Part; 3] = [
    (|names| &names.gate, Change::Scaled(Scaled::Gate)),
    (|names| &names.up, Change::None),
    (|names| &names.down, Change::Scaled(Scaled::Down)),
];

const EXPERTS: [Part; 10] = [
    (|names| &names.router, Change::None),
    (|names| &names.expert_in, Change::None),
    (|names| &names.expert_gate, Change::Experts),
    (|names| &names.expert_up, Change::Experts),
    (|names| &names.expert_down, Change::Experts),
    (|names| &names.expert_out, Change::None),
    (|names| &names.shared_gate, Change::None),
    (|names| &names.shared_up, Change::None),
    (|names| &names.shared_down, Change::None),
    (|names| &names.shared_router, Change::None),
];

const SIDE_BY_SIDE_NORMS: [Part; 3] = [
    (|names| &names.dense_output_norm, Change::Norm),
    (|names| &names.expert_norm, Change::Norm),
    (|names| &names.expert_output_norm, Change::Norm),
];

const LAYER_INPUT: [Part; 3] = [
    (|names| &names.layer_input_gate, Change::None),
    (|names| &names.layer_input_projection, Change::None),
    (|names| &names.layer_input_norm, Change::Norm),
];

const ALT_UP: [Part; 4] = [
    (|names| &names.alt_up_norm, Change::Norm),
    (|names| &names.alt_up_router, Change::None),
    (|names| &names.alt_up_prediction, Change::None),
    (|names| &names.alt_up_correction, Change::None),
];

const LAUREL: [Part; 3] = [
    (|names| &names.laurel_left, Change::None),
    (|names| &names.laurel_right, Change::None),
    (|names| &names.laurel_norm, Change::Norm),
];

fn attention(spec: &DecoderSpec) -> Vec<Part> {
    let latent: [Part; 6] = [
        (|names| &names.q_a, Change::None),
        (|names| &names.q_a_norm, Change::Norm),
        (|names| &names.q_b, Change::None),
        (|names| &names.kv_a, Change::None),
        (|names| &names.kv_a_norm, Change::Norm),
        (|names| &names.kv_b, Change::None),
    ];
    // Latent attention has heads that rotate in part, in the order of the checkpoint.
    let (q, k) = match spec.latent {
        Some(_) => (Change::None, Change::None),
        None => (
            Change::ScaledHeads(spec.heads, Scaled::Query),
            Change::ScaledHeads(spec.kv_heads, Scaled::KeyOrValue),
        ),
    };
    let mut parts: Vec<Part> = vec![
        (|names| &names.q, q),
        (|names| &names.k, k),
        (|names| &names.v, Change::Scaled(Scaled::KeyOrValue)),
        (|names| &names.qkv, Change::FusedQkv),
        (|names| &names.q_norm, Change::Norm),
        (|names| &names.k_norm, Change::Norm),
        (|names| &names.o, Change::Scaled(Scaled::AttentionOutput)),
    ];
    if spec.latent.is_some() {
        parts.extend(latent);
    }
    parts
}

fn delta_net(net: DeltaNetSpec) -> Vec<Part> {
    let (v_dim, keys) = (net.v_dim.into(), 2 * net.keys());
    vec![
        (|names| &names.delta_qkv, Change::ValueRows(keys, v_dim)),
        (|names| &names.delta_gate, Change::ValueRows(0, v_dim)),
        (|names| &names.delta_beta, Change::ValueRows(0, 1)),
        (|names| &names.delta_step, Change::ValueRows(0, 1)),
        (|names| &names.delta_fused_gates, Change::None),
        (|names| &names.delta_conv, Change::ValueRows(keys, v_dim)),
        (|names| &names.delta_norm, Change::None),
        (|names| &names.delta_out, Change::ValueColumns),
    ]
}

fn norms(spec: &DecoderSpec, layer: &LayerSpec) -> Vec<Part> {
    let mixes = layer.mixer != Mixer::None;
    let feeds = layer.feed_forward != FeedForward::None;
    let mut parts: Vec<(SelectName, Change)> = Vec::new();
    // Some names are those of the norm after attention in one placement and of the norm before the
    // feed-forward in another.
    if spec.norm_placement != NormPlacement::Output {
        if mixes {
            parts.push((|names| &names.attention_norm, Change::Norm));
        }
        if feeds {
            parts.push((|names| &names.mlp_norm, Change::Norm));
        }
    }
    if spec.norm_placement != NormPlacement::Pre {
        parts.push((|names| &names.attention_output_norm, Change::Norm));
        parts.push((|names| &names.mlp_output_norm, Change::Norm));
    }
    if spec.norm_placement == NormPlacement::PostResidual {
        parts.push((|names| &names.attention_residual_norm, Change::Norm));
        parts.push((|names| &names.mlp_residual_norm, Change::Norm));
    }
    parts
}

// Causal depthwise convolution over the sequences of a ragged batch. An invocation computes one channel of
// one token. That of a sequence's last token also computes the first tokens, which read the state that it
// then replaces: no other invocation touches the state of the sequence's channel.
import package::activation::{ACTIVATION_SILU, activate};
import package::spans::{NO_STATE, is_valid_span};
import constants::WG;

/// `causal_conv`: `out[t, c] = bias[c] + sum over w of weight[c, w] * x[t + w + 1 - width, c]`, over tokens
/// of one sequence, and with `silu` the SiLU of that. `state[row]` holds the `width - 1` tokens before the
/// batch's; a sequence reads one row of it, and writes the tokens before its next one to a row. Grid:
/// `[channels, tokens]`.
///
/// `gated_causal_conv` (LFM2): a token of `x` is three parts of `channels` elements, a gate, a second gate
/// and a value. What is convolved is `gate * value`, and the second gate multiplies the result. Grid:
/// `[channels, tokens]`.
///
/// Nothing is written for a token without a valid span; the host's twin returns an error.
struct CausalConvParams {
    /// Tokens in the batch.
    tokens: u32,
    /// Sequences that have a span.
    batch: u32,
    /// Channels, which are convolved independently.
    channels: u32,
    /// Tokens that one element depends on, its own included; at least 2.
    width: u32,
    /// 1 to add `bias`; 0 if there is none, and any buffer may be bound as `bias`.
    has_bias: u32,
    /// 1 to apply SiLU, else 0.
    silu: u32,
}

@group(0) @binding(0) var<uniform> p: CausalConvParams;
@group(0) @binding(1) var<storage, read> x: array<f32>; // [tokens, channels], or [tokens, 3, channels] if gated
@group(0) @binding(2) var<storage, read> weight: array<f32>; // [channels, width]
@group(0) @binding(3) var<storage, read> bias: array<f32>; // [channels]
@group(0) @binding(4) var<storage, read> index: array<vec2<u32>>; // [tokens], of (sequence, position)
@group(0) @binding(5) var<storage, read> spans: array<vec4<u32>>; // [batch], of (first token, tokens, row read, row written)
@group(0) @binding(6) var<storage, read_write> state: array<f32>; // [rows, width - 1, channels]
@group(0) @binding(7) var<storage, read_write> out: array<f32>; // [tokens, channels]

const TILE = vec2<u32>(WG, 1u);

// What is convolved: channel `c` of token `t`.
@if(!gated)
fn convolved(t: u32, c: u32) -> f32 {
    return x[t * p.channels + c];
}

@if(gated)
fn convolved(t: u32, c: u32) -> f32 {
    let base = t * 3u * p.channels + c;
    return x[base] * x[base + 2u * p.channels];
}

// Channel `c` of the token that stands `back` before token `at` of a span, which may stand in the state.
fn before(span: vec4<u32>, at: u32, back: u32, c: u32) -> f32 {
    if back <= at {
        return convolved(span.x + at - back, c);
    }
    if span.z == NO_STATE {
        return 0.0;
    }
    let taps = p.width - 1u;
    return state[(span.z * taps + taps + at - back) * p.channels + c];
}

// Writes channel `c` of token `at` of a span.
fn convolve(span: vec4<u32>, at: u32, c: u32) {
    let taps = p.width - 1u;
    let filter_base = c * p.width;
    var sum = 0.0;
    if p.has_bias != 0u {
        sum = bias[c];
    }
    for (var w = 0u; w < taps; w++) {
        sum += weight[filter_base + w] * before(span, at, taps - w, c);
    }
    let t = span.x + at;
    sum += weight[filter_base + taps] * convolved(t, c);
    if p.silu != 0u {
        sum = activate(sum, ACTIVATION_SILU);
    }
    @if(gated) {
        sum *= x[(t * 3u + 1u) * p.channels + c];
    }
    out[t * p.channels + c] = sum;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let c = (wid.x + wid.z * groups.x) * WG + lid;
    let t = wid.y;
    if c >= p.channels || t >= p.tokens {
        return;
    }
    let sequence = index[t].x;
    // Invalid sequence: nothing is written.
    if sequence >= min(p.batch, arrayLength(&spans)) {
        return;
    }
    let span = spans[sequence];
    let taps = p.width - 1u;
    let rows = arrayLength(&state) / max(p.channels, 1u) / max(taps, 1u);
    // Invalid span: nothing is written.
    if !is_valid_span(span, p.tokens, rows) || t < span.x || t - span.x >= span.y {
        return;
    }
    let at = t - span.x;
    if at + 1u < span.y {
        if at >= taps {
            convolve(span, at, c);
        }
        return;
    }
    for (var early = 0u; early < min(taps, at); early++) {
        convolve(span, early, c);
    }
    convolve(span, at, c);
    // In place where a sequence keeps its row: what is read stands behind what is written.
    for (var w = 0u; w < taps; w++) {
        let value = before(span, span.y, taps - w, c);
        state[(span.w * taps + w) * p.channels + c] = value;
    }
}

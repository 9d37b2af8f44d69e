// The gates of linear recurrences: what a token's decay and its share of the state are computed from.
import package::linear_recurrence_params::p;

@group(0) @binding(1) var<storage, read> qkv: array<f32>; // [tokens, 2 * k_heads * k_dim + v_heads * v_dim], q, k and v, or x, b and c
@group(0) @binding(2) var<storage, read> gates: array<f32>; // [tokens, 2, v_heads], b and dt, or [tokens, v_heads], dt
@group(0) @binding(3) var<storage, read> a_log: array<f32>; // [v_heads]
@group(0) @binding(4) var<storage, read> dt_bias: array<f32>; // [v_heads]

// ln(1 + e^x) without overflow.
fn softplus(x: f32) -> f32 {
    return max(x, 0.0) + log(1.0 + exp(-abs(x)));
}

@if(!mamba)
fn sigmoid(x: f32) -> f32 {
    return 1.0 / (1.0 + exp(min(-x, 87.0)));
}

// A head's factor on steps, the logarithm of a decay, and the bias of its steps.
fn decay_of_head(head: u32) -> vec2<f32> {
    return vec2(-exp(a_log[head]), dt_bias[head]);
}

// The gates of a token: its decay, and its step (`mamba`) or how far it moves what the state answers to its key.
fn token_gates(t: u32, head: u32, decay: vec2<f32>) -> vec2<f32> {
    @if(mamba) let step = softplus(gates[t * p.v_heads + head] + decay.y);
    @if(mamba) return vec2(exp(decay.x * step), step);
    @if(!mamba) let gate = 2u * t * p.v_heads + head;
    @if(!mamba) let step = softplus(gates[gate + p.v_heads] + decay.y);
    @if(!mamba) return vec2(exp(decay.x * step), sigmoid(gates[gate]));
}

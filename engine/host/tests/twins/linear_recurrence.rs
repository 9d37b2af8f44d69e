//! Linear recurrences in chunks of tokens: they agree with the recurrence token by token.

use std::ops::Range;

use proptest::prelude::*;
use wisp_shaders::params::{CHUNK, LinearRecurrenceParams, NO_STATE};

use super::zeros;
use crate::support::{buffer, contents, numbers, run};
use wisp_host::HostBuffer;

/// Heads of keys and of values, and their elements.
type Sizes = [usize; 4];

/// Tokens of a sequence, and the heads' weights.
struct Tokens {
    is_mamba: bool,
    sizes: Sizes,
    qkv: Vec<f32>,
    gates: Vec<f32>,
    a_log: Vec<f32>,
    dt_bias: Vec<f32>,
    d: Vec<f32>,
}

impl Tokens {
    /// Makes tokens whose decays' rates spread over `e^-rates` to `e^rates`.
    fn new(is_mamba: bool, sizes: Sizes, count: usize, rates: f32) -> Tokens {
        let [_, v_heads, ..] = sizes;
        let a_log = numbers(3, v_heads).into_iter().map(|x| rates * x);
        let mut tokens = Tokens {
            is_mamba,
            sizes,
            qkv: Vec::new(),
            gates: Vec::new(),
            a_log: a_log.collect(),
            dt_bias: numbers(4, v_heads),
            d: numbers(6, v_heads),
        };
        tokens.qkv = numbers(1, count * tokens.width());
        tokens.gates = numbers(2, count * tokens.gate_width());
        tokens
    }

    fn width(&self) -> usize {
        let [k_heads, v_heads, k_dim, v_dim] = self.sizes;
        2 * k_heads * k_dim + v_heads * v_dim
    }

    fn gate_width(&self) -> usize {
        self.sizes[1] * if self.is_mamba { 1 } else { 2 }
    }

    fn state(&self) -> usize {
        let [_, v_heads, k_dim, v_dim] = self.sizes;
        v_heads * k_dim * v_dim
    }

    /// Returns the ops of a method: the recurrence, or its scores and chunks.
    fn op(&self, part: &str) -> String {
        let op = if self.is_mamba {
            "mamba2_scan"
        } else {
            "gated_delta_rule"
        };
        format!("{op}{part}")
    }

    /// Makes a call of some tokens, which stand behind `before` others in their batch.
    fn call(&self, range: Range<usize>, before: usize, span: [u32; 2]) -> Call<'_> {
        let [k_heads, v_heads, k_dim, v_dim] = self.sizes;
        let count = before + range.len();
        let slice = |all: &[f32], width: usize| {
            let other = vec![f32::NAN; before * width];
            buffer(&[&other, &all[range.start * width..range.end * width]].concat())
        };
        let row = if self.is_mamba {
            4 + CHUNK
        } else {
            4 + 2 * CHUNK
        };
        Call {
            tokens: self,
            params: LinearRecurrenceParams {
                tokens: count as u32,
                batch: 1,
                k_heads: k_heads as u32,
                v_heads: v_heads as u32,
                k_dim: k_dim as u32,
                v_dim: v_dim as u32,
                eps: 1e-6,
                scale: if self.is_mamba {
                    1.0
                } else {
                    1.0 / (k_dim as f32).sqrt()
                },
            },
            qkv: slice(&self.qkv, self.width()),
            gates: slice(&self.gates, self.gate_width()),
            heads: [&self.a_log, &self.dt_bias, &self.d].map(|x| buffer(x)),
            span: buffer(&[before as u32, range.len() as u32, span[0], span[1]]),
            scores: zeros::<f32>(v_heads * count * row as usize),
            out: zeros::<f32>(count * v_heads * v_dim),
        }
    }
}

/// A call of some tokens.
struct Call<'a> {
    tokens: &'a Tokens,
    params: LinearRecurrenceParams,
    qkv: HostBuffer,
    gates: HostBuffer,
    heads: [HostBuffer; 3],
    span: HostBuffer,
    scores: HostBuffer,
    out: HostBuffer,
}

impl Call<'_> {
    fn run(&self, in_chunks: bool, state: &HostBuffer) {
        let [a_log, dt_bias, d] = &self.heads;
        let (qkv, gates, out) = (&self.qkv, &self.gates, &self.out);
        let call = |part: &str, buffers: &[&HostBuffer]| {
            run(&self.tokens.op(part), self.params, buffers).unwrap();
        };
        if !in_chunks {
            return call("", &[qkv, gates, a_log, dt_bias, &self.span, state, out, d]);
        }
        call("_scores", &[qkv, gates, a_log, dt_bias, &self.scores]);
        call("_chunked", &[qkv, &self.scores, &self.span, state, out, d]);
    }
}

/// Steps of tokens, whether each is computed in chunks, and how many tokens are before it in its batch.
fn steps() -> impl Strategy<Value = Vec<(usize, bool, usize)>> {
    let sizes = prop_oneof![1usize..4, 30usize..36, 1usize..110];
    prop::collection::vec((sizes, any::<bool>(), 0usize..40), 1..5)
}

/// `|a - b| / |b|`; NaN if one of them is not finite.
fn error(a: &[f32], b: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let off = a
        .iter()
        .zip(b)
        .map(|(a, b)| square(f64::from(*a) - f64::from(*b)));
    let norm: f64 = b.iter().map(|b| square(f64::from(*b))).sum();
    (off.sum::<f64>() / norm.max(1e-30)).sqrt()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_split_into_steps_agrees_with_the_recurrence(
        is_mamba: bool,
        group in 1usize..3,
        k_heads in 1usize..3,
        k_dim in prop_oneof![1usize..9, 60usize..70, Just(256)],
        v_dim in prop_oneof![1usize..6, 31usize..37],
        rates in prop_oneof![Just(1f32), Just(8.0)],
        steps in steps(),
    ) {
        let count = steps.iter().map(|(len, ..)| len).sum();
        let sizes = [k_heads, k_heads * group, k_dim, v_dim];
        let tokens = Tokens::new(is_mamba, sizes, count, rates);
        let state = zeros::<f32>(2 * tokens.state());
        let whole = tokens.call(0..count, 0, [NO_STATE, 0]);
        whole.run(false, &state);
        let expected: Vec<f32> = contents(&whole.out);
        let expected_state = contents::<f32>(&state)[..tokens.state()].to_vec();

        let state = zeros::<f32>(2 * tokens.state());
        let (mut at, mut row, mut out) = (0, NO_STATE, Vec::new());
        for (len, in_chunks, before) in steps {
            // Each step writes the other row.
            let next = if row == 0 { 1 } else { 0 };
            let call = tokens.call(at..at + len, before, [row, next]);
            call.run(in_chunks, &state);
            let results: Vec<f32> = contents(&call.out);
            out.extend(&results[before * sizes[1] * v_dim..]);
            (at, row) = (at + len, next);
        }
        let state = &contents::<f32>(&state)[row as usize * tokens.state()..][..tokens.state()];
        for (what, error) in [
            ("results", error(&out, &expected)),
            ("the state", error(state, &expected_state)),
        ] {
            prop_assert!(error <= 1e-5, "{what}: {error:e}");
        }
    }
}

//! The time of a prompt in a mixture of experts beside that in a dense layer with as many active parameters.

use std::time::{Duration, Instant};

use wisp_shaders::params::*;
use wisp_types::Encoding;

use super::products::weight;
use super::{matmul_params, zeros};
use crate::support::{BlockFactors, buffer, contents, numbers, run};
use wisp_host::HostBuffer;

const TOKENS: usize = 512;

/// Rows of a weight that are made; the others repeat them.
const MADE_ROWS: usize = 64;

/// A layer's sizes.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    hidden: usize,
    experts: usize,
    /// The width of an expert.
    inner: usize,
    experts_per_token: usize,
}

/// Returns the planes of a large weight.
fn planes(encoding: Encoding, rows: usize, cols: usize) -> Vec<HostBuffer> {
    let (planes, _) = weight(encoding, MADE_ROWS, cols, 1);
    let repeated = |plane: &HostBuffer| {
        let bytes: Vec<u8> = contents(plane);
        buffer(&bytes.repeat(rows / MADE_ROWS))
    };
    planes.iter().map(repeated).collect()
}

/// A weight, and how it is multiplied.
struct Weight {
    encoding: Encoding,
    int8: bool,
    planes: Vec<HostBuffer>,
}

impl Weight {
    fn new(encoding: Encoding, int8: bool, rows: usize, cols: usize) -> Weight {
        Weight {
            encoding,
            int8,
            planes: planes(encoding, rows, cols),
        }
    }

    /// Runs a product of `x` `[x_rows, cols]`, quantised before if need be. `operand` has the third binding.
    fn run<P: bytemuck::Pod>(
        &self,
        op: &str,
        params: P,
        [x_rows, cols]: [usize; 2],
        [x, out, operand]: [&HostBuffer; 3],
    ) {
        let planes = self.planes.iter();
        if !self.int8 {
            let bound = [x, out, operand]
                .into_iter()
                .chain(planes)
                .collect::<Vec<_>>();
            run(&format!("{op}.{}", self.encoding.name()), params, &bound).unwrap();
            return;
        }
        let blocks = cols.div_ceil(32);
        let bytes = zeros::<[i8; 32]>(x_rows * blocks);
        let factors = zeros::<BlockFactors>(x_rows * blocks);
        let rounding = QuantizeParams {
            tokens: x_rows as u32,
            cols: cols as u32,
            blocks: blocks as u32,
        };
        run("quantize", rounding, &[x, &bytes, &factors]).unwrap();
        let bound = [&bytes, out, operand, &factors].into_iter().chain(planes);
        let bound = bound.collect::<Vec<_>>();
        run(
            &format!("{op}_int8.{}", self.encoding.name()),
            params,
            &bound,
        )
        .unwrap();
    }
}

/// A gated feed-forward layer with all inner columns that a token's experts have together.
fn dense(encoding: Encoding, int8: bool, sizes: Sizes) -> impl Fn() -> Duration {
    let inner = sizes.inner * sizes.experts_per_token;
    let gate_up = Weight::new(encoding, int8, 2 * inner, sizes.hidden);
    let down = Weight::new(encoding, int8, sizes.hidden, inner);
    let x = buffer(&numbers(2, TOKENS * sizes.hidden));
    let [activated, out] = [inner, sizes.hidden].map(|cols| zeros::<f32>(TOKENS * cols));
    let bias = zeros::<f32>(2 * inner);
    move || {
        let gated = MatmulGatedParams {
            tokens: TOKENS as u32,
            rows: inner as u32,
            cols: sizes.hidden as u32,
            blocks: sizes.hidden.div_ceil(32) as u32,
            activation: 0,
            has_bias: 0,
        };
        let start = Instant::now();
        let shape = [TOKENS, sizes.hidden];
        gate_up.run("matmul_gated", gated, shape, [&x, &activated, &bias]);
        let params = matmul_params([TOKENS, sizes.hidden, inner], false);
        down.run("matmul", params, [TOKENS, inner], [&activated, &out, &bias]);
        start.elapsed()
    }
}

/// The experts, without their choice.
fn mixture(encoding: Encoding, int8: bool, sizes: Sizes) -> impl Fn() -> Duration {
    let (chosen, pairs) = (sizes.experts_per_token, TOKENS * sizes.experts_per_token);
    let up = Weight::new(encoding, int8, sizes.experts * sizes.inner, sizes.hidden);
    let down = Weight::new(encoding, int8, sizes.experts * sizes.hidden, sizes.inner);
    let x = buffer(&numbers(2, TOKENS * sizes.hidden));
    let logits = buffer(&numbers(3, TOKENS * sizes.experts));
    let (ids, weights) = (zeros::<u32>(pairs), zeros::<f32>(pairs));
    let route = RouteParams {
        tokens: TOKENS as u32,
        experts: sizes.experts as u32,
        experts_per_token: chosen as u32,
        normalise: 1,
    };
    run("route", route, &[&logits, &ids, &weights]).unwrap();
    let [gates, ups, activated] = [(); 3].map(|()| zeros::<f32>(pairs * sizes.inner));
    let downs = zeros::<f32>(pairs * sizes.hidden);
    let out = zeros::<f32>(TOKENS * sizes.hidden);
    let params = move |rows: usize, cols: usize, pairs_per_row: usize| MatmulExpertsParams {
        pairs: pairs as u32,
        experts: sizes.experts as u32,
        rows: rows as u32,
        cols: cols as u32,
        blocks: cols.div_ceil(32) as u32,
        pairs_per_row: pairs_per_row as u32,
        first_row: 0,
        chunk_rows: (sizes.experts * rows) as u32,
        in_turn: 0,
    };
    move || {
        let start = Instant::now();
        for result in [&gates, &ups] {
            let params = params(sizes.inner, sizes.hidden, chosen);
            let shape = [TOKENS, sizes.hidden];
            up.run("matmul_experts", params, shape, [&x, result, &ids]);
        }
        let gated = GatedParams {
            tokens: pairs as u32,
            cols: sizes.inner as u32,
            gate_stride: sizes.inner as u32,
            gate_offset: 0,
            up_stride: sizes.inner as u32,
            up_offset: 0,
            activation: 0,
        };
        run("gated", gated, &[&gates, &ups, &activated]).unwrap();
        let params = params(sizes.hidden, sizes.inner, 1);
        let shape = [pairs, sizes.inner];
        down.run("matmul_experts", params, shape, [&activated, &downs, &ids]);
        let combine = CombineExpertsParams {
            tokens: TOKENS as u32,
            experts_per_token: chosen as u32,
            cols: sizes.hidden as u32,
        };
        run("combine_experts", combine, &[&downs, &weights, &out]).unwrap();
        start.elapsed()
    }
}

#[test]
#[ignore = "measures; run it with --release, --nocapture and on an idle machine"]
fn prompts_of_experts_take_at_most_1_3_times_as_long_as_dense_layers() {
    let mut slow = Vec::new();
    for (hidden, experts, inner, experts_per_token) in
        [(1024, 32, 512, 4), (2048, 32, 1024, 4), (2048, 64, 768, 8)]
    {
        let sizes = Sizes {
            hidden,
            experts,
            inner,
            experts_per_token,
        };
        for encoding in [Encoding::Q4_0, Encoding::Q4_K, Encoding::F16] {
            for int8 in [false, true] {
                if int8 && encoding == Encoding::F16 {
                    continue;
                }
                let dense = dense(encoding, int8, sizes);
                let mixture = mixture(encoding, int8, sizes);
                let mut times = [(); 7].map(|()| {
                    let (dense, mixture) = (dense().as_secs_f64(), mixture().as_secs_f64());
                    (mixture / dense, dense, mixture)
                });
                times.sort_by(|a, b| a.0.total_cmp(&b.0));
                let (ratio, dense, mixture) = times[times.len() / 2];
                println!(
                    "{sizes:?} {} int8 {int8}: {:.1} ms of {:.1} ms, {ratio:.2} times",
                    encoding.name(),
                    mixture * 1e3,
                    dense * 1e3,
                );
                if ratio > 1.3 {
                    slow.push((sizes, encoding, int8, ratio));
                }
            }
        }
    }
    assert!(slow.is_empty(), "{slow:?}");
}

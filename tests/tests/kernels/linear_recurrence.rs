//! `gated_delta_rule` and `mamba2_scan`.

use wisp_engine::graph::serial_recurrence_tokens;
use wisp_shaders::{DeviceClass, Kernel, params::LinearRecurrenceParams};
use wisp_tests::{
    guarded::{Hostile, check_hostile},
    kernels::{
        Case, Memory, case, check, check_fitting, check_fitting_if, close, exact, noise, replaced,
    },
};

use crate::spans::{BATCHES, HOSTILE, ROWS, Sequences, hostile_spans, ragged};

pub(crate) const OPS: [(&str, bool); 2] = [("gated_delta_rule", false), ("mamba2_scan", true)];

/// Heads of keys and of values, and their elements.
pub(crate) type Sizes = [usize; 4];

pub(crate) const SIZES: [Sizes; 5] = [
    [1, 1, 1, 1],
    [1, 2, 7, 9],
    [2, 2, 33, 5],
    [1, 3, 128, 20],
    [1, 1, 200, 11],
];

/// The parameters of a call.
pub(crate) fn params(
    is_mamba: bool,
    [k_heads, v_heads, k_dim, v_dim]: Sizes,
    tokens: usize,
    batch: usize,
) -> LinearRecurrenceParams {
    LinearRecurrenceParams {
        tokens: tokens as u32,
        batch: batch as u32,
        k_heads: k_heads as u32,
        v_heads: v_heads as u32,
        k_dim: k_dim as u32,
        v_dim: v_dim as u32,
        eps: 1e-6,
        scale: match is_mamba {
            true => 1.0,
            false => 1.0 / (k_dim as f32).sqrt(),
        },
    }
}

/// The input, the gates, and the heads' rates of decay and biases. Rates spread over `e^-rates` to `e^rates`.
pub(crate) fn inputs(is_mamba: bool, sizes: Sizes, tokens: usize, rates: f32) -> Vec<Vec<f32>> {
    let [k_heads, v_heads, k_dim, v_dim] = sizes;
    let gates = if is_mamba { 1 } else { 2 };
    let a_log = noise(3, v_heads).into_iter().map(|x| rates * x);
    vec![
        noise(1, tokens * (2 * k_heads * k_dim + v_heads * v_dim)),
        noise(2, tokens * gates * v_heads),
        a_log.collect(),
        noise(4, v_heads),
    ]
}

/// The spans, with others behind those of the batch, and the states and results to be written.
pub(crate) fn sequences(
    [_, v_heads, k_dim, v_dim]: Sizes,
    tokens: usize,
    spans: &[[u32; 4]],
) -> Vec<Memory> {
    vec![
        exact(&[spans, &[[0, 1, 0, 0]]].concat()),
        replaced(&noise(5, ROWS * v_heads * k_dim * v_dim), 1e-5),
        close(tokens * v_heads * v_dim, 1e-5),
    ]
}

fn recurrence(is_mamba: bool, sizes: Sizes, tokens: usize, spans: &[[u32; 4]]) -> Case {
    let [_, v_heads, k_dim, v_dim] = sizes;
    let inputs = inputs(is_mamba, sizes, tokens, 1.0);
    let mut memory: Vec<Memory> = inputs.iter().map(|x| exact(x)).collect();
    memory.extend(sequences(sizes, tokens, spans));
    if is_mamba {
        memory.push(exact(&noise(6, v_heads)));
    }
    let params = params(is_mamba, sizes, tokens, spans.len());
    case(params, memory, &[v_heads * v_dim, spans.len()], k_dim)
}

#[test]
fn kernels_match_the_twin() {
    let batches: Vec<_> = BATCHES.iter().map(|sequences| ragged(sequences)).collect();
    for (op, is_mamba) in OPS {
        let cases: Vec<Case> = batches
            .iter()
            .flat_map(|(index, spans)| {
                SIZES.map(|sizes| recurrence(is_mamba, sizes, index.len(), spans))
            })
            .collect();
        check(op, &cases);
    }
}

/// llvmpipe ends the loops of an invocation after 65,535 turns without an error: kernels must need fewer.
#[test]
fn many_tokens_with_the_largest_keys_match_the_twin() {
    const PROMPTS: [(Sequences, usize); 2] = [(&[(450, None)], 256), (&[(900, None)], 128)];
    for (prompt, k_dim) in PROMPTS {
        let (index, spans) = ragged(prompt);
        for (op, is_mamba) in OPS {
            let case = recurrence(is_mamba, [1, 1, k_dim, 3], index.len(), &spans);
            check_fitting(op, &[case]);
        }
    }
}

/// Rows of states with which kernels for software adapters are run with as many tokens as they compute.
pub(crate) const SERIAL_ROWS: [usize; 4] = [256, 128, 64, 1];

pub(crate) fn is_for_software(kernel: &Kernel) -> bool {
    kernel.device_class == DeviceClass::Software
}

#[test]
fn software_adapters_compute_as_many_tokens_as_they_say() {
    for k_dim in SERIAL_ROWS {
        let tokens = serial_recurrence_tokens(k_dim as u32) as usize;
        let (_, spans) = ragged(&[(tokens, None)]);
        for (op, is_mamba) in OPS {
            let case = recurrence(is_mamba, [1, 1, k_dim, 3], tokens, &spans);
            check_fitting_if(op, &[case], is_for_software);
        }
    }
}

#[test]
fn sequences_without_a_valid_span_write_nothing() {
    let sizes = [1, 2, 5, 3];
    let [_, v_heads, k_dim, v_dim] = sizes;
    let (index, spans) = ragged(HOSTILE);
    let [first, len, ..] = spans[1].map(|word| word as usize);
    for (op, is_mamba) in OPS {
        let reference = recurrence(is_mamba, sizes, index.len(), &spans);
        // These ops do not read the index.
        let cases = hostile_spans()
            .into_iter()
            .filter(|(_, hostile)| *hostile != spans);
        let cases = cases.map(|(index, spans)| {
            let (row, result) = (4 * v_heads * k_dim * v_dim, 4 * v_heads * v_dim);
            let case = recurrence(is_mamba, sizes, index.len(), &spans);
            Hostile::refused(case, reference.clone())
                .unwritten(7, first * result..(first + len) * result)
                .unwritten(6, row..2 * row)
        });
        check_hostile(op, &cases.collect::<Vec<_>>());
    }
}

//! `gated_delta_rule_chunked` and `mamba2_scan_chunked`, and the scores that they read, of `gated_delta_rule_scores` and
//! `mamba2_scan_scores`. The host crate tests that its twins agree with the recurrence token by token.

use wisp_engine::graph::serial_recurrence_tokens;
use wisp_shaders::params::{CHUNK, COLUMN_STEP};
use wisp_tests::{
    guarded::{Hostile, check_hostile},
    kernels::{
        Case, case, check, check_fitting_if, check_outputs, close, exact, noise, twin_outputs,
    },
};

use crate::{
    linear_recurrence::{
        OPS, SERIAL_ROWS, SIZES, Sizes, inputs, is_for_software, params, sequences,
    },
    spans::{BATCHES, HOSTILE, Sequences, hostile_spans, ragged},
};

/// Batches with sequences around the size of a chunk, which begin anywhere in one.
const LONG: &[Sequences] = &[
    &[(32, None)],
    &[(31, Some(0)), (2, None)],
    &[(33, Some(4)), (1, Some(3)), (31, None)],
    &[(101, None), (0, None), (5, Some(2))],
];

/// The inputs of the scores: tokens, gates, and the heads' rates of decay and biases.
type Inputs = Vec<Vec<f32>>;

fn scores(is_mamba: bool, sizes: Sizes, inputs: &Inputs) -> Case {
    let [k_heads, v_heads, k_dim, _] = sizes;
    let tokens = inputs[1].len() / v_heads / if is_mamba { 1 } else { 2 };
    let row = 4 + CHUNK as usize * if is_mamba { 1 } else { 2 };
    let mut memory: Vec<_> = inputs.iter().map(|x| exact(x)).collect();
    memory.push(close(v_heads * tokens * row, 1e-5));
    let params = params(is_mamba, sizes, tokens, 0);
    case(params, memory, &[k_heads, tokens], k_dim)
}

/// A call with the scores of the host's twin.
fn chunked(op: &str, sizes: Sizes, inputs: &Inputs, spans: &[[u32; 4]]) -> Case {
    let [_, v_heads, k_dim, v_dim] = sizes;
    let is_mamba = op == "mamba2_scan";
    let scores = scores(is_mamba, sizes, inputs);
    let scores = &twin_outputs(&format!("{op}_scores"), &scores)[4];
    let tokens = inputs[1].len() / v_heads / if is_mamba { 1 } else { 2 };
    let mut memory = vec![exact(&inputs[0]), exact(scores)];
    memory.extend(sequences(sizes, tokens, spans));
    if is_mamba {
        memory.push(exact(&noise(6, v_heads)));
    }
    let width = v_heads * v_dim.next_multiple_of(COLUMN_STEP as usize);
    let params = params(is_mamba, sizes, tokens, spans.len());
    case(params, memory, &[width, spans.len()], k_dim)
}

/// Sizes of models: several tiles of columns, and the largest keys.
const LARGE: [Sizes; 3] = [[1, 2, 128, 64], [1, 1, 64, 33], [1, 1, 256, 3]];

/// Sizes, numbers of tokens and rates of decay: weak and strong ones.
fn cases(mut make: impl FnMut(Sizes, &Inputs, &[[u32; 4]], bool)) {
    for is_mamba in [false, true] {
        for (i, sizes) in SIZES.into_iter().chain(LARGE).enumerate() {
            for (j, sequences) in BATCHES.iter().chain(LONG).enumerate() {
                // Each size with some of the batches, each batch with some of the sizes.
                if (i + j) % 3 == 0 {
                    let (index, spans) = ragged(sequences);
                    let rates = if j % 2 == 0 { 1.0 } else { 8.0 };
                    let inputs = inputs(is_mamba, sizes, index.len(), rates);
                    make(sizes, &inputs, &spans, is_mamba);
                }
            }
        }
    }
}

#[test]
fn scores_match_the_twin() {
    let mut all = [Vec::new(), Vec::new()];
    cases(|sizes, inputs, _, is_mamba| {
        all[usize::from(is_mamba)].push(scores(is_mamba, sizes, inputs));
    });
    for ((op, _), cases) in OPS.iter().zip(all) {
        check(&format!("{op}_scores"), &cases);
    }
}

#[test]
fn kernels_match_the_twin() {
    let mut all = [Vec::new(), Vec::new()];
    cases(|sizes, inputs, spans, is_mamba| {
        let of = usize::from(is_mamba);
        all[of].push(chunked(OPS[of].0, sizes, inputs, spans));
    });
    for ((op, _), cases) in OPS.iter().zip(all) {
        check(&format!("{op}_chunked"), &cases);
    }
}

/// llvmpipe ends the loops of an invocation after 65,535 turns without an error: kernels must need fewer.
#[test]
fn long_prompts_with_the_largest_keys_match_the_twin() {
    for (op, is_mamba) in OPS {
        let sizes = [1, 1, 256, 3];
        let (index, spans) = ragged(&[(512, None)]);
        let inputs = inputs(is_mamba, sizes, index.len(), 1.0);
        let cases = [chunked(op, sizes, &inputs, &spans)];
        check(&format!("{op}_chunked"), &cases);
    }
}

#[test]
fn software_adapters_compute_as_many_tokens_as_they_say() {
    for k_dim in SERIAL_ROWS {
        let tokens = serial_recurrence_tokens(k_dim as u32) as usize;
        let (_, spans) = ragged(&[(tokens, None)]);
        for (op, is_mamba) in OPS {
            let sizes = [1, 1, k_dim, 3];
            let inputs = inputs(is_mamba, sizes, tokens, 1.0);
            let case = chunked(op, sizes, &inputs, &spans);
            check_fitting_if(&format!("{op}_chunked"), &[case], is_for_software);
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
        let inputs = inputs(is_mamba, sizes, index.len(), 1.0);
        let reference = chunked(op, sizes, &inputs, &spans);
        let cases = hostile_spans()
            .into_iter()
            .filter(|(_, hostile)| *hostile != spans);
        let cases = cases.map(|(_, spans)| {
            let (row, result) = (4 * v_heads * k_dim * v_dim, 4 * v_heads * v_dim);
            let case = chunked(op, sizes, &inputs, &spans);
            Hostile::refused(case, reference.clone())
                .unwritten(5, first * result..(first + len) * result)
                .unwritten(4, row..2 * row)
        });
        check_hostile(&format!("{op}_chunked"), &cases.collect::<Vec<_>>());
    }
}

/// Returns the floats of an output, `rows` of them from `first` on.
fn floats(output: &[u8], rows: std::ops::Range<usize>, row: usize) -> Vec<f32> {
    bytemuck::pod_collect_to_vec(&output[4 * rows.start * row..4 * rows.end * row])
}

/// Messages about results that differ.
fn compare(what: &str, actual: Vec<f32>, expected: Vec<f32>) -> Option<String> {
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4;
    let equal = actual.iter().zip(&expected).all(close);
    (!equal).then(|| format!("{what}: {actual:?}, expected {expected:?}"))
}

/// Two sequences share a chunk, and the numbers of one are not finite.
#[test]
fn numbers_that_are_not_finite_stay_in_their_sequence() {
    let sizes = [1, 2, 7, 3];
    let [_, v_heads, k_dim, v_dim] = sizes;
    let (_, spans) = ragged(&[(5, Some(3)), (9, None)]);
    for (op, is_mamba) in OPS {
        let finite = inputs(is_mamba, sizes, 14, 1.0);
        for spoiled in 0..2 {
            let [first, len, _, _] = spans[spoiled].map(|word| word as usize);
            let mut inputs = finite.clone();
            for input in &mut inputs[..2] {
                let width = input.len() / 14;
                input[first * width..(first + len) * width].fill(f32::NAN);
            }
            let other = 1 - spoiled;
            let [first, len, _, row] = spans[other].map(|word| word as usize);
            let (width, rows) = (v_heads * v_dim, first..first + len);
            let case = chunked(op, sizes, &inputs, &spans);
            let reference = chunked(op, sizes, &finite, &spans);
            let name = format!("{op}_chunked");
            let expected = twin_outputs(&name, &reference);
            let judge = |outputs: &Vec<Vec<u8>>| {
                let state = v_heads * k_dim * v_dim;
                let results =
                    [&outputs[4], &expected[4]].map(|out| floats(out, rows.clone(), width));
                let states =
                    [&outputs[3], &expected[3]].map(|out| floats(out, row..row + 1, state));
                let [a, b] = results;
                let [c, d] = states;
                let messages = [compare("results", a, b), compare("the state", c, d)];
                messages.into_iter().flatten().collect::<Vec<_>>()
            };
            assert_eq!(judge(&twin_outputs(&name, &case)), Vec::<String>::new());
            check_outputs(&name, &[case], |_, outputs| judge(outputs));

            let case = scores(is_mamba, sizes, &inputs);
            let op = format!("{op}_scores");
            check_outputs(&op, &[case], |_, outputs| {
                let row = outputs[4].len() / 4 / v_heads / 14;
                let own = |i: usize| floats(&outputs[4], i..i + 1, row);
                let own = rows.clone().map(|i| own(i)[4 + first..][..len].to_vec());
                let finite = own.flatten().all(f32::is_finite);
                (!finite)
                    .then(|| "scores are not finite".to_string())
                    .into_iter()
                    .collect()
            });
        }
    }
}

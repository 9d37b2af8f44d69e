//! `gated_delta_rule`.

use wisp_shaders::params::LinearRecurrenceParams;
use wisp_tests::{
    guarded::{Hostile, check_hostile},
    kernels::{Case, case, check, close, exact, noise, replaced},
};

use crate::spans::{BATCHES, HOSTILE, ROWS, hostile_spans, ragged};

const OP: &str = "gated_delta_rule";

/// Heads of keys and of values, and their elements.
type Sizes = [usize; 4];

fn gated_delta_rule(
    [k_heads, v_heads, k_dim, v_dim]: Sizes,
    tokens: usize,
    spans: &[[u32; 4]],
) -> Case {
    let params = LinearRecurrenceParams {
        tokens: tokens as u32,
        batch: spans.len() as u32,
        k_heads: k_heads as u32,
        v_heads: v_heads as u32,
        k_dim: k_dim as u32,
        v_dim: v_dim as u32,
        eps: 1e-6,
        scale: 1.0 / (k_dim as f32).sqrt(),
    };
    let width = v_heads * v_dim;
    let memory = vec![
        exact(&noise(1, tokens * (2 * k_heads * k_dim + width))),
        exact(&noise(2, tokens * 2 * v_heads)),
        exact(&noise(3, v_heads)),
        exact(&noise(4, v_heads)),
        // Behind the batch's spans there may be others.
        exact(&[spans, &[[0, 1, 0, 0]]].concat()),
        replaced(&noise(5, ROWS * v_heads * k_dim * v_dim), 1e-5),
        close(tokens * width, 1e-5),
    ];
    case(params, memory, &[width, spans.len()], k_dim)
}

#[test]
fn kernels_match_the_twin() {
    let sizes: [Sizes; 5] = [
        [1, 1, 1, 1],
        [1, 2, 7, 9],
        [2, 2, 33, 5],
        [1, 3, 128, 20],
        [1, 1, 200, 11],
    ];
    let batches: Vec<_> = BATCHES.iter().map(|sequences| ragged(sequences)).collect();
    let cases: Vec<Case> = batches
        .iter()
        .flat_map(|(index, spans)| sizes.map(|sizes| gated_delta_rule(sizes, index.len(), spans)))
        .collect();
    check(OP, &cases);
}

#[test]
fn sequences_without_a_valid_span_write_nothing() {
    let sizes = [1, 2, 5, 3];
    let [_, v_heads, k_dim, v_dim] = sizes;
    let (index, spans) = ragged(HOSTILE);
    let [first, len, ..] = spans[1].map(|word| word as usize);
    let reference = gated_delta_rule(sizes, index.len(), &spans);
    // This op does not read the index.
    let cases = hostile_spans()
        .into_iter()
        .filter(|(_, hostile)| *hostile != spans);
    let cases = cases.map(|(index, spans)| {
        let (row, result) = (4 * v_heads * k_dim * v_dim, 4 * v_heads * v_dim);
        Hostile::refused(
            gated_delta_rule(sizes, index.len(), &spans),
            reference.clone(),
        )
        .unwritten(7, first * result..(first + len) * result)
        .unwritten(6, row..2 * row)
    });
    check_hostile(OP, &cases.collect::<Vec<_>>());
}

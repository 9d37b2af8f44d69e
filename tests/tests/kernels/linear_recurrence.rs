//! `gated_delta_rule` and `mamba2_scan`.

use wisp_shaders::params::LinearRecurrenceParams;
use wisp_tests::{
    guarded::{Hostile, check_hostile},
    kernels::{Case, case, check, close, exact, noise, replaced},
};

use crate::spans::{BATCHES, HOSTILE, ROWS, hostile_spans, ragged};

const OPS: [(&str, bool); 2] = [("gated_delta_rule", false), ("mamba2_scan", true)];

/// Heads of keys and of values, and their elements.
type Sizes = [usize; 4];

fn recurrence(
    is_mamba: bool,
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
    let gates = if is_mamba { 1 } else { 2 };
    let mut memory = vec![
        exact(&noise(1, tokens * (2 * k_heads * k_dim + width))),
        exact(&noise(2, tokens * gates * v_heads)),
        exact(&noise(3, v_heads)),
        exact(&noise(4, v_heads)),
        // Behind the batch's spans there may be others.
        exact(&[spans, &[[0, 1, 0, 0]]].concat()),
        replaced(&noise(5, ROWS * v_heads * k_dim * v_dim), 1e-5),
        close(tokens * width, 1e-5),
    ];
    if is_mamba {
        memory.push(exact(&noise(6, v_heads)));
    }
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
    for (op, is_mamba) in OPS {
        let cases: Vec<Case> = batches
            .iter()
            .flat_map(|(index, spans)| {
                sizes.map(|sizes| recurrence(is_mamba, sizes, index.len(), spans))
            })
            .collect();
        check(op, &cases);
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

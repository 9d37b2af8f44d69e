//! `lora_shrink`.

use proptest::prelude::*;
use wisp_shaders::params::LoraShrinkParams;
use wisp_tests::guarded::{Hostile, check_hostile};
use wisp_tests::kernels::{Case, case, check, check_fitting, close, exact, noise};

use crate::lora::{BATCH, index, invalid_adapters, invalid_sequences};

/// What the kernel writes for a token without an adapter is not defined, so every token has one here.
fn shrink(sizes: [usize; 4]) -> Case {
    let [tokens, slots, ..] = sizes;
    let adapters: Vec<u32> = (0..BATCH).map(|i| (1 + i % slots) as u32).collect();
    shrink_of(sizes, &index(tokens), &adapters)
}

fn shrink_of(
    [tokens, slots, rows, cols]: [usize; 4],
    index: &[[u32; 2]],
    adapters: &[u32],
) -> Case {
    let params = LoraShrinkParams {
        tokens: tokens as u32,
        rows: rows as u32,
        cols: cols as u32,
    };
    let memory = vec![
        exact(&noise(1, tokens * cols)),
        exact(index),
        exact(adapters),
        exact(&noise(2, slots * rows * cols)),
        close(tokens * rows, 1e-6 * (cols as f64).sqrt()),
    ];
    case(params, memory, &[rows, tokens], cols)
}

#[test]
fn kernels_match_the_twin() {
    let sizes = [
        [1, 1, 1, 1],
        [1, 1, 16, 64],
        [3, 2, 7, 33],
        [5, 4, 48, 172],
        [17, 3, 5, 515],
        [64, 2, 130, 96],
    ];
    check("lora_shrink", &sizes.map(shrink));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn kernels_match_the_twin_at_any_size(sizes in [1usize..20, 1..4, 1..40, 1..300]) {
        check_fitting("lora_shrink", &[shrink(sizes)]);
    }
}

/// The kernel happens to write zeros for such tokens, as the twin does.
#[test]
fn invalid_sequences_and_adapters_count_as_none() {
    let slots = 3;
    let cases = [invalid_sequences(slots), invalid_adapters(slots)].map(|invalid| {
        let sizes = [invalid.index.len(), slots, 7, 33];
        let hostile = shrink_of(sizes, &invalid.index, &invalid.adapters);
        let reference = shrink_of(sizes, &invalid.reference_index, &invalid.reference_adapters);
        Hostile::refused(hostile, reference)
    });
    check_hostile("lora_shrink", &cases);
}

//! `lora_expand`.

use proptest::prelude::*;
use wisp_shaders::params::LoraExpandParams;
use wisp_tests::guarded::{Hostile, check_hostile};
use wisp_tests::kernels::{Case, case, check, check_fitting, close, exact, noise};

use crate::lora::{adapters, index, invalid_adapters, invalid_sequences};

/// The rows of up to three projections, computed together, or those of one of them.
fn expand(sizes: [usize; 3], widths: &[usize], single: Option<usize>) -> Case {
    let [tokens, slots, _] = sizes;
    expand_of(sizes, widths, single, &index(tokens), &adapters(slots))
}

fn expand_of(
    [tokens, slots, rank]: [usize; 3],
    widths: &[usize],
    single: Option<usize>,
    index: &[[u32; 2]],
    adapters: &[u32],
) -> Case {
    let projections = widths.len();
    let b_rows: usize = widths.iter().sum();
    let start = |projection: usize| match projection < projections {
        true => widths[..projection].iter().sum::<usize>() as u32,
        false => u32::MAX,
    };
    let (first_row, rows) = match single {
        Some(projection) => (start(projection), widths[projection]),
        None => (0, b_rows),
    };
    let params = LoraExpandParams {
        tokens: tokens as u32,
        rows: rows as u32,
        rank: rank as u32,
        projections: projections as u32,
        first_row,
        b_rows: b_rows as u32,
        second_start: start(1),
        third_start: start(2),
    };
    let memory = vec![
        exact(&noise(1, tokens * projections * rank)),
        exact(index),
        exact(adapters),
        exact(&noise(2, slots * rank * b_rows)),
        close(tokens * rows, 1e-6 * (rank as f64).sqrt()),
    ];
    case(params, memory, &[rows, tokens], rank)
}

#[test]
fn kernels_match_the_twin() {
    let sizes: [([usize; 3], &[usize]); 6] = [
        ([1, 1, 1], &[1]),
        ([1, 2, 16], &[64, 16, 16]),
        ([7, 3, 5], &[33, 65]),
        ([12, 4, 3], &[1, 2, 3]),
        ([33, 1, 64], &[515]),
        ([2, 2, 8], &[300, 1, 300]),
    ];
    let mut cases = Vec::new();
    for (size, widths) in sizes {
        cases.push(expand(size, widths, None));
        cases.extend((0..widths.len()).map(|projection| expand(size, widths, Some(projection))));
    }
    check("lora_expand", &cases);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn kernels_match_the_twin_at_any_size(
        sizes in [1usize..20, 1..4, 1..40],
        widths in prop::collection::vec(1usize..200, 1..4),
        single in prop::option::of(0usize..3),
    ) {
        let single = single.map(|projection| projection % widths.len());
        check_fitting("lora_expand", &[expand(sizes, &widths, single)]);
    }
}

#[test]
fn invalid_sequences_and_adapters_count_as_none() {
    let slots = 3;
    let invalid = [invalid_sequences(slots), invalid_adapters(slots)];
    let cases = invalid.iter().flat_map(|invalid| {
        [None, Some(1)].map(|single| {
            let sizes = [invalid.index.len(), slots, 5];
            let of = |index, adapters| expand_of(sizes, &[33, 65], single, index, adapters);
            let reference = of(&invalid.reference_index, &invalid.reference_adapters);
            Hostile::refused(of(&invalid.index, &invalid.adapters), reference)
        })
    });
    check_hostile("lora_expand", &cases.collect::<Vec<_>>());
}

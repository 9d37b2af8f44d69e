//! Low-rank adapters: `lora_shrink`, `lora_expand`.

use proptest::prelude::*;
use wisp_shaders::params::{LoraExpandParams, LoraShrinkParams};
use wisp_tests::kernels::{Case, Memory, case, check, check_fitting, close, exact, noise};

/// Sequences in the batch.
const BATCH: usize = 5;

/// Which sequence each token belongs to, and which adapter each sequence has: some have none.
fn chosen(tokens: usize, slots: usize) -> [Memory; 2] {
    let index: Vec<[u32; 2]> = (0..tokens as u32)
        .map(|t| [t * 7 % BATCH as u32, t])
        .collect();
    let adapters: Vec<u32> = (0..BATCH).map(|i| (i % (slots + 1)) as u32).collect();
    [exact(&index), exact(&adapters)]
}

/// The second half undoes what the first may write for tokens without an adapter, so every token of
/// the first has one here.
fn shrink([tokens, slots, rows, cols]: [usize; 4]) -> Case {
    let params = LoraShrinkParams {
        tokens: tokens as u32,
        rows: rows as u32,
        cols: cols as u32,
    };
    let [index, _] = chosen(tokens, slots);
    let adapters: Vec<u32> = (0..BATCH).map(|i| (1 + i % slots) as u32).collect();
    let memory = vec![
        exact(&noise(1, tokens * cols)),
        index,
        exact(&adapters),
        exact(&noise(2, slots * rows * cols)),
        close(tokens * rows, 1e-6 * (cols as f64).sqrt()),
    ];
    case(params, memory, &[rows, tokens], cols)
}

#[test]
fn lora_shrink() {
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

/// The rows of up to three projections, computed together or one of them by itself.
fn expand([tokens, slots, rank]: [usize; 3], outputs: &[usize], alone: Option<usize>) -> Case {
    let parts = outputs.len();
    let b_rows: usize = outputs.iter().sum();
    let start = |part: usize| match part < parts {
        true => outputs[..part].iter().sum::<usize>() as u32,
        false => u32::MAX,
    };
    let (first, rows) = match alone {
        Some(part) => (start(part), outputs[part]),
        None => (0, b_rows),
    };
    let params = LoraExpandParams {
        tokens: tokens as u32,
        rows: rows as u32,
        rank: rank as u32,
        parts: parts as u32,
        first_row: first,
        b_rows: b_rows as u32,
        second: start(1),
        third: start(2),
    };
    let mut memory = vec![exact(&noise(1, tokens * parts * rank))];
    memory.extend(chosen(tokens, slots));
    memory.extend([
        exact(&noise(2, slots * rank * b_rows)),
        close(tokens * rows, 1e-6 * (rank as f64).sqrt()),
    ]);
    case(params, memory, &[rows, tokens], rank)
}

#[test]
fn lora_expand() {
    let sizes: [([usize; 3], &[usize]); 6] = [
        ([1, 1, 1], &[1]),
        ([1, 2, 16], &[64, 16, 16]),
        ([7, 3, 5], &[33, 65]),
        ([12, 4, 3], &[1, 2, 3]),
        ([33, 1, 64], &[515]),
        ([2, 2, 8], &[300, 1, 300]),
    ];
    let mut cases = Vec::new();
    for (size, outputs) in sizes {
        cases.push(expand(size, outputs, None));
        cases.extend((0..outputs.len()).map(|part| expand(size, outputs, Some(part))));
    }
    check("lora_expand", &cases);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn adapters_of_any_size(
        sizes in [1usize..20, 1..4, 1..40, 1..300],
        outputs in prop::collection::vec(1usize..200, 1..4),
        alone in prop::option::of(0usize..3),
    ) {
        let [tokens, slots, rank, _] = sizes;
        check_fitting("lora_shrink", &[shrink(sizes)]);
        let alone = alone.map(|part| part % outputs.len());
        check_fitting("lora_expand", &[expand([tokens, slots, rank], &outputs, alone)]);
    }
}

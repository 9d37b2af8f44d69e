//! `matmul_experts.<encoding>`.

use proptest::prelude::*;
use wisp_engine::weights::Encoding;
use wisp_shaders::params::MatmulExpertsParams;
use wisp_tests::guarded::{Hostile, check_hostile, spoiled};
use wisp_tests::kernels::{
    Case, case, check, check_fitting, close, exact, noise, some_encodings, weight,
};

/// Pairs of a token and an expert, experts, rows of one, columns, and pairs that share a row of x.
pub(crate) const SIZES: &[[usize; 5]] = &[
    [1, 1, 1, 7, 1],
    [2, 3, 44, 72, 2],
    [6, 5, 67, 172, 3],
    [4, 4, 33, 515, 1],
    [10, 6, 130, 32, 2],
    [16, 2, 7, 256, 8],
    [3, 131, 3, 96, 1],
    [33, 3, 5, 60, 1],
    [4, 8, 5, 2880, 2],
    [2, 2, 5, 4864, 1],
    // The chunk lies within one tile.
    [3, 1, 40, 64, 1],
    // Many pairs for each expert.
    [130, 3, 66, 96, 2],
    [300, 2, 5, 64, 4],
];

pub(crate) fn matmul_experts(encoding: Encoding, sizes: [usize; 5], is_chunk: bool) -> Case {
    let ids: Vec<u32> = (0..sizes[0]).map(|i| (i * 7 % sizes[1]) as u32).collect();
    matmul_experts_of(encoding, sizes, is_chunk, &ids)
}

/// The product with all experts' rows, or with a chunk that begins and ends within an expert.
pub(crate) fn matmul_experts_of(
    encoding: Encoding,
    [pairs, experts, rows, cols, pairs_per_row]: [usize; 5],
    is_chunk: bool,
    ids: &[u32],
) -> Case {
    product_of(
        encoding,
        [pairs, experts, rows, cols, pairs_per_row],
        is_chunk,
        ids,
        false,
    )
}

fn product_of(
    encoding: Encoding,
    [pairs, experts, rows, cols, pairs_per_row]: [usize; 5],
    is_chunk: bool,
    ids: &[u32],
    in_turn: bool,
) -> Case {
    let cols = cols.next_multiple_of(encoding.file_block_weights());
    let all = experts * rows;
    let (first, chunk) = match is_chunk {
        true => (all / 3, (all / 2).max(1)),
        false => (0, all),
    };
    let params = MatmulExpertsParams {
        pairs: pairs as u32,
        experts: experts as u32,
        rows: rows as u32,
        cols: cols as u32,
        blocks: cols.div_ceil(32) as u32,
        pairs_per_row: pairs_per_row as u32,
        first_row: first as u32,
        chunk_rows: chunk as u32,
        in_turn: in_turn.into(),
    };
    let mut memory = vec![
        exact(&noise(1, pairs / pairs_per_row * cols)),
        close(pairs * rows, 1e-6 * (cols as f64).sqrt()),
        exact(ids),
    ];
    memory.extend(weight(encoding, chunk, cols));
    case(params, memory, &[rows, pairs], cols)
}

/// Tokens, heads, rows of one, and columns: few and many heads, and more tokens than a group has.
pub(crate) const HEADS: &[[usize; 4]] = &[
    [1, 3, 44, 72],
    [3, 5, 67, 96],
    [2, 131, 3, 64],
    [37, 2, 70, 96],
    [70, 9, 5, 60],
];

/// The product of heads with the weights of their own.
pub(crate) fn heads_of(
    encoding: Encoding,
    [tokens, heads, rows, cols]: [usize; 4],
    is_chunk: bool,
) -> Case {
    let sizes = [tokens * heads, heads, rows, cols, 1];
    // Ids that nothing reads.
    let ids = vec![u32::MAX; tokens * heads];
    product_of(encoding, sizes, is_chunk, &ids, true)
}

#[test]
fn experts_in_turn_match_the_twin() {
    for encoding in Encoding::device_encodings() {
        let both =
            |sizes: &[usize; 4]| [false, true].map(|chunk| heads_of(encoding, *sizes, chunk));
        let cases: Vec<_> = HEADS.iter().flat_map(both).collect();
        check(&format!("matmul_experts.{}", encoding.name()), &cases);
    }
}

#[test]
fn kernels_match_the_twin() {
    for encoding in Encoding::device_encodings() {
        let both =
            |sizes: &[usize; 5]| [false, true].map(|chunk| matmul_experts(encoding, *sizes, chunk));
        let cases: Vec<_> = SIZES.iter().flat_map(both).collect();
        check(&format!("matmul_experts.{}", encoding.name()), &cases);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn kernels_match_the_twin_at_any_size(
        encoding in prop::sample::select(Encoding::device_encodings().collect::<Vec<_>>()),
        tokens in 1usize..9,
        sizes in [1usize..5, 1..9, 1..90, 1..600],
        is_shared: bool,
        is_chunk: bool,
    ) {
        let [experts_per_token, experts, rows, cols] = sizes;
        let pairs_per_row = if is_shared { experts_per_token } else { 1 };
        let sizes = [tokens * experts_per_token, experts, rows, cols, pairs_per_row];
        check_fitting(
            &format!("matmul_experts.{}", encoding.name()),
            &[matmul_experts(encoding, sizes, is_chunk)],
        );
    }
}

#[test]
fn invalid_ids_select_the_last_expert() {
    let experts = 3u32;
    for encoding in some_encodings() {
        let mut cases = Vec::new();
        // Few and many pairs; columns with and without whole vec4s, where the encoding has both.
        for (pairs, cols) in [(11usize, 64), (17, 64), (17, 35)] {
            let valid: Vec<u32> = (0..pairs as u32).map(|i| i * 7 % experts).collect();
            let ids = spoiled(&valid, experts);
            let clamped: Vec<u32> = ids.iter().map(|id| (*id).min(experts - 1)).collect();
            for is_chunk in [false, true] {
                let sizes = [pairs, experts as usize, 8, cols, 1];
                let [hostile, reference] =
                    [&ids, &clamped].map(|ids| matmul_experts_of(encoding, sizes, is_chunk, ids));
                cases.push(Hostile::refused(hostile, reference));
            }
        }
        check_hostile(&format!("matmul_experts.{}", encoding.name()), &cases);
    }
}

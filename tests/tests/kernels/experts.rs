//! A mixture of experts: `route`, `matmul_experts.<encoding>`, `combine_experts`.

use proptest::prelude::*;
use wisp_engine::weights::Encoding;
use wisp_shaders::params::{CombineExpertsParams, MatmulExpertsParams, RouteParams};
use wisp_tests::kernels::{Case, case, check, check_fitting, close, exact, noise, weight};

/// Tokens, experts and those chosen.
const ROUTES: &[[usize; 3]] = &[
    [1, 1, 1],
    [3, 5, 2],
    [2, 6, 6],
    [7, 64, 8],
    [5, 131, 10],
    [17, 8, 2],
];

fn route(tokens: usize, experts: usize, chosen: usize, coarse: bool) -> Case {
    let params = RouteParams {
        tokens: tokens as u32,
        experts: experts as u32,
        chosen: chosen as u32,
        normalise: (tokens % 2) as u32,
    };
    let mut logits: Vec<f32> = noise(1, tokens * experts).iter().map(|x| x * 4.0).collect();
    if coarse {
        logits.iter_mut().for_each(|x| *x = x.round());
    }
    let memory = vec![
        exact(&logits),
        exact(&vec![99u32; tokens * chosen]),
        close(tokens * chosen, 2e-6),
    ];
    case(params, memory, &[tokens], experts)
}

#[test]
fn routes() {
    // Coarse logits have equals, of which the lowest experts must be chosen.
    let of = |coarse| {
        ROUTES
            .iter()
            .map(move |&[tokens, experts, chosen]| route(tokens, experts, chosen, coarse))
    };
    check("route", &of(false).chain(of(true)).collect::<Vec<_>>());
}

#[test]
fn combine_experts() {
    let sizes = [[1usize, 1, 7], [3, 2, 60], [5, 8, 515], [2, 3, 1]];
    let cases = sizes.map(|[tokens, chosen, cols]| {
        let params = CombineExpertsParams {
            tokens: tokens as u32,
            chosen: chosen as u32,
            cols: cols as u32,
        };
        let memory = vec![
            exact(&noise(1, tokens * chosen * cols)),
            exact(&noise(2, tokens * chosen)),
            close(tokens * cols, 1e-6),
        ];
        case(params, memory, &[tokens * cols], cols)
    });
    check("combine_experts", &cases);
}

/// Pairs of a token and an expert, experts, rows of one, cols, and pairs that share a row of x.
const SIZES: &[[usize; 5]] = &[
    [1, 1, 1, 7, 1],
    [2, 3, 44, 72, 2],
    [6, 5, 67, 172, 3],
    [4, 4, 33, 515, 1],
    [10, 6, 130, 32, 2],
    [16, 2, 7, 256, 8],
    [3, 131, 3, 96, 1],
    [33, 3, 5, 60, 1],
];

/// The product with all experts' rows, or with a chunk that begins and ends within an expert.
fn product(
    encoding: Encoding,
    [pairs, experts, rows, cols, share]: [usize; 5],
    is_chunk: bool,
) -> Case {
    let cols = cols.next_multiple_of(encoding.file_block_weights());
    let all = experts * rows;
    let (first, chunk) = match is_chunk {
        true => (all / 3, (all / 2).max(1)),
        false => (0, all),
    };
    let params = MatmulExpertsParams {
        tokens: pairs as u32,
        rows: rows as u32,
        cols: cols as u32,
        blocks: cols.div_ceil(32) as u32,
        share: share as u32,
        first_row: first as u32,
        chunk_rows: chunk as u32,
    };
    let ids: Vec<u32> = (0..pairs).map(|i| (i * 7 % experts) as u32).collect();
    let mut memory = vec![
        exact(&noise(1, pairs / share * cols)),
        close(pairs * rows, 1e-6 * (cols as f64).sqrt()),
        exact(&ids),
    ];
    memory.extend(weight(encoding, chunk, cols));
    case(params, memory, &[rows, pairs], cols)
}

#[test]
fn products() {
    for encoding in Encoding::device_encodings() {
        let cases: Vec<_> = SIZES
            .iter()
            .flat_map(|sizes| [false, true].map(|chunk| product(encoding, *sizes, chunk)))
            .collect();
        check(&format!("matmul_experts.{}", encoding.name()), &cases);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn products_of_any_size(
        encoding in prop::sample::select(Encoding::device_encodings().collect::<Vec<_>>()),
        tokens in 1usize..9,
        sizes in [1usize..5, 1..9, 1..90, 1..600],
        shared: bool,
        is_chunk: bool,
    ) {
        let [chosen, experts, rows, cols] = sizes;
        let share = if shared { chosen } else { 1 };
        let sizes = [tokens * chosen, experts, rows, cols, share];
        check_fitting(
            &format!("matmul_experts.{}", encoding.name()),
            &[product(encoding, sizes, is_chunk)],
        );
    }
}

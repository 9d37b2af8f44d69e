//! `matmul_gated.<encoding>`.

use wisp_engine::weights::Encoding;
use wisp_shaders::params::MatmulGatedParams;
use wisp_tests::kernels::{Case, case, check, close, exact, noise, weight};

/// Tokens, rows of the result, and columns; quantised encodings get the next whole number of blocks.
pub(crate) const SIZES: &[[usize; 3]] = &[
    [1, 1, 64],
    [1, 67, 172],
    [1, 6, 4864],
    [2, 33, 896],
    [3, 31, 60],
    [5, 66, 96],
    [8, 7, 512],
    [9, 64, 256],
    [17, 35, 128],
    [33, 67, 96],
    [65, 130, 172],
];

pub(crate) fn gated(encoding: Encoding, activation: u32, [tokens, rows, cols]: [usize; 3]) -> Case {
    let cols = cols.next_multiple_of(encoding.file_block_weights());
    let params = MatmulGatedParams {
        tokens: tokens as u32,
        rows: rows as u32,
        cols: cols as u32,
        blocks: cols.div_ceil(32) as u32,
        activation,
        has_bias: (rows % 2) as u32,
    };
    let mut memory = vec![
        exact(&noise(1, tokens * cols)),
        // The activation of a large gate is about as far off as the gate; the other factor adds as much.
        close(tokens * rows, 2e-6 * (cols as f64).sqrt()),
        exact(&noise(2, 2 * rows)),
    ];
    memory.extend(weight(encoding, 2 * rows, cols));
    case(params, memory, &[rows, tokens], cols)
}

#[test]
fn kernels_match_the_twin() {
    for (encoding, activation) in Encoding::device_encodings().zip((0..4).cycle()) {
        let cases = SIZES
            .iter()
            .map(|sizes| gated(encoding, activation, *sizes));
        let cases: Vec<_> = cases.collect();
        check(&format!("matmul_gated.{}", encoding.name()), &cases);
    }
}

//! `rope`.

use wisp_shaders::params::RopeParams;
use wisp_tests::guarded::{Hostile, check_hostile, invalid_indices};
use wisp_tests::kernels::{Case, case, check, close, exact};

use crate::paged::{Batch, HOSTILE_BATCH, HOSTILE_TOKENS, hostile_index, moved_index, rotated};

fn rope_of(b: &Batch, index: &[[u32; 2]], rotary_dim: usize, interleaved: u32) -> Case {
    let tokens = index.len();
    let stride = b.heads * b.head_dim + 3;
    let params = RopeParams {
        tokens: tokens as u32,
        heads: b.heads as u32,
        head_dim: b.head_dim as u32,
        rotary_dim: rotary_dim as u32,
        stride: stride as u32,
        offset: 1,
        interleaved,
    };
    let memory = vec![
        close(tokens * stride, 1e-6),
        exact(index),
        exact(&b.rope_table(rotary_dim)),
    ];
    let grid = [rotary_dim / 2 * b.heads, tokens];
    case(params, memory, &grid, b.head_dim)
}

#[test]
fn kernels_match_the_twin() {
    let mut cases = rotated(|b, rotary_dim, i| rope_of(b, &b.index(), rotary_dim, i));
    // An empty grid is not dispatched.
    cases.retain(|case| case.grid[0] > 0);
    check("rope", &cases);
}

#[test]
fn invalid_positions_leave_tokens_unrotated() {
    let b = &HOSTILE_BATCH;
    let invalid = invalid_indices((b.max_pages() * b.page_size) as u32);
    let row = 4 * (b.heads * b.head_dim + 3);
    let cases = [0, 1].map(|interleaved| {
        let rope = |index: Vec<[u32; 2]>| rope_of(b, &index, 4, interleaved);
        let hostile = rope(hostile_index(|i| [invalid[i], invalid[i]]));
        let hostile = Hostile::refused(hostile, rope(moved_index()));
        (1..HOSTILE_TOKENS).step_by(2).fold(hostile, |hostile, t| {
            hostile.unwritten(1, t * row..(t + 1) * row)
        })
    });
    check_hostile("rope", &cases);
}

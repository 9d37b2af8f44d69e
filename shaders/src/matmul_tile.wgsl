// Shared by the kernels that compute a tile of EDGE_ROWS rows by EDGE_TOKENS tokens in registers: an invocation
// computes every ROW_STEP-th row and every TOKEN_STEP-th token.
@if(experts) import package::expert_pairs::group;
import package::matmul_io::output_rows;
@if(!gated) import package::matmul_io::store;
@if(gated) import package::matmul_io::store_gated;
import constants::{EDGE_ROWS, EDGE_TOKENS, ROWS, TOKENS};

const ROW_STEP: u32 = EDGE_ROWS / ROWS;
const TOKEN_STEP: u32 = EDGE_TOKENS / TOKENS;

// The sums of an invocation: that of its row `r` and its token `t` is number `ROWS * t + r`.
alias Sums = array<f32, ROWS * TOKENS>;

// The output row of token `i` of the tile of workgroup `y`; past all output rows if there is none.
@if(!experts)
fn tile_token(y: u32, i: u32) -> u32 {
    return y * EDGE_TOKENS + i;
}

@if(experts)
fn tile_token(y: u32, i: u32) -> u32 {
    return group[i];
}

// The output row whose row of x token `i` of the tile multiplies: the last one for tokens past the end.
fn input_row(y: u32, i: u32) -> u32 {
    return min(tile_token(y, i), output_rows() - 1u);
}

// Stores the results of invocation `lid` of workgroup `y`, whose tile begins at row `first_row` of the output.
fn store_sums(y: u32, first_row: u32, lid: u32, sums: Sums) {
    let row = first_row + lid % ROW_STEP;
    for (var t = 0u; t < TOKENS; t++) {
        let token = tile_token(y, lid / ROW_STEP + TOKEN_STEP * t);
        @if(!gated)
        for (var r = 0u; r < ROWS; r++) {
            store(token, row + ROW_STEP * r, sums[ROWS * t + r]);
        }
        // Half of the rows of an invocation are those of the other weight, in the same order.
        @if(gated)
        for (var r = 0u; r < ROWS / 2u; r++) {
            store_gated(token, row + ROW_STEP * r, sums[ROWS * t + r], sums[ROWS * t + r + ROWS / 2u]);
        }
    }
}

// Shared by the kernels that compute a tile of EDGE_ROWS rows by EDGE_TOKENS tokens on NVIDIA's tensor cores. A subgroup has 64
// rows by 32 tokens of it: matrices of 16 rows by 8 tokens, in registers as `mma.wgsl` says.
import package::matmul_io::tile_row;
@if(!gated) import package::matmul_io::store;
@if(gated) import package::matmul_io::store_gated;
import package::matmul_tile::tile_token;
import constants::{WG, EDGE_ROWS, EDGE_TOKENS, BLOCKS};

// The matrices of a subgroup: half of the rows are in each half of the tile, because with `gated` one half is the gate of the
// other.
const ROW_MATRICES: u32 = 4u;
const TOKEN_MATRICES: u32 = 4u;
const ROW_SUBGROUPS: u32 = EDGE_ROWS / 64u;
const TOKEN_SUBGROUPS: u32 = EDGE_TOKENS / 32u;
// Subgroups that multiply the same rows and tokens, and share the blocks of a step: with `splits` more than one.
const SPLITS: u32 = WG / 32u / (ROW_SUBGROUPS * TOKEN_SUBGROUPS);
const_assert SPLITS * ROW_SUBGROUPS * TOKEN_SUBGROUPS * 32u == WG;

// The sums of a lane: two tokens of one row, then of the row 8 below, for each matrix: [token matrix, row matrix].
const SUMS: u32 = TOKEN_MATRICES * ROW_MATRICES;
alias Sums = array<vec4<f32>, SUMS>;

// Matrices for the 32 columns of a block: one of bytes, two of halves. A lane has 16 bytes of one, for two rows.
@if(int8) const BLOCK_MATRICES: u32 = 1u;
@if(!int8) const BLOCK_MATRICES: u32 = 2u;
const WEIGHTS: u32 = 2u * BLOCK_MATRICES * BLOCKS * EDGE_ROWS;
const_assert SPLITS / 2u * ROW_SUBGROUPS * TOKEN_SUBGROUPS * SUMS * 32u <= WEIGHTS;
var<workgroup> weights: array<vec4<u32>, WEIGHTS>; // see `weight_at`
var<workgroup> factors: array<vec4<f32>, BLOCKS * EDGE_ROWS>; // [block, row]: two scales, two offsets

// The place in `weights` of what a lane has of matrix `m` of the step's columns: four words of a pair of rows 8 apart. Neither the
// invocations that write adjacent pairs nor the lanes that read them use the same banks.
fn weight_at(m: u32, pair: u32, group: u32) -> u32 {
    return 4u * (EDGE_ROWS / 2u * m + pair) + (group ^ (pair / 2u % 4u));
}

// The first row of a pair.
fn pair_row(pair: u32) -> u32 {
    return 16u * (pair / 8u) + pair % 8u;
}

// The rows of the weight that a pair multiplies; see `tile_row`.
fn pair_rows(first_token: u32, first_row: u32, pair: u32) -> vec2<u32> {
    return vec2(
        tile_row(first_token, first_row, pair_row(pair), EDGE_ROWS),
        tile_row(first_token, first_row, pair_row(pair) + 8u, EDGE_ROWS),
    );
}

// Stores the factors of block `block` of the step, of the two rows of a pair.
fn store_factors(block: u32, pair: u32, top: vec4<f32>, bottom: vec4<f32>) {
    factors[EDGE_ROWS * block + pair_row(pair)] = top;
    factors[EDGE_ROWS * block + pair_row(pair) + 8u] = bottom;
}

// The first row of matrix `m` among those of the subgroup.
fn matrix_row(m: u32) -> u32 {
    return m / 2u * (EDGE_ROWS / 2u) + m % 2u * 16u;
}

// Where an invocation is in the tile.
struct Place {
    lane: u32,
    // The number of the subgroup's rows and tokens, and its number among the subgroups that share them.
    part: u32,
    split: u32,
    // The first row of the sums that the lane has, of its first matrix.
    row: u32,
    // The token of the inputs that it has, and the first of the two tokens of its sums.
    input_token: u32,
    token: u32,
    // The place of its first weights. Pairs that are a multiple of 8 apart have the same order of groups.
    first_weight: u32,
}

fn place_of(lid: u32) -> Place {
    let lane = lid % 32u;
    let part = lid / 32u / SPLITS;
    let row = 32u * (part % ROW_SUBGROUPS) + lane / 4u;
    let first_token = 32u * (part / ROW_SUBGROUPS);
    return Place(
        lane, part, lid / 32u % SPLITS, row, first_token + lane / 4u, first_token + 2u * (lane % 4u),
        weight_at(0u, row / 16u * 8u + row % 8u, lane % 4u),
    );
}

// Adds up the sums of subgroups that share rows and tokens; the first of them has the results. All invocations must call it,
// after a barrier.
@if(splits)
fn merge_splits(place: Place, acc: ptr<function, Sums>) {
    // Half of the subgroups pass their sums to the others, and so on.
    for (var others = SPLITS / 2u; others > 0u; others /= 2u) {
        let at = SUMS * 32u * (place.part * others + place.split % others) + place.lane;
        if place.split / others == 1u {
            for (var i = 0u; i < SUMS; i++) {
                weights[at + 32u * i] = bitcast<vec4<u32>>((*acc)[i]);
            }
        }
        workgroupBarrier();
        if place.split < others {
            for (var i = 0u; i < SUMS; i++) {
                (*acc)[i] += bitcast<vec4<f32>>(weights[at + 32u * i]);
            }
        }
        workgroupBarrier();
    }
}

// Stores the results of an invocation of workgroup `y`, whose tile begins at row `first_row` of the output.
fn store_sums(y: u32, first_row: u32, place: Place, sums: Sums) {
    for (var n = 0u; n < TOKEN_MATRICES; n++) {
        for (var i = 0u; i < 2u; i++) {
            let token = tile_token(y, place.token + 8u * n + i);
            for (var j = 0u; j < 2u; j++) {
                for (var m = 0u; m < 2u; m++) {
                    let row = first_row + place.row + matrix_row(m) + 8u * j;
                    let upper = sums[ROW_MATRICES * n + m][2u * j + i];
                    let lower = sums[ROW_MATRICES * n + m + 2u][2u * j + i];
                    @if(!gated) store(token, row, upper);
                    @if(!gated) store(token, row + EDGE_ROWS / 2u, lower);
                    @if(gated) store_gated(token, row, upper, lower);
                }
            }
        }
    }
}

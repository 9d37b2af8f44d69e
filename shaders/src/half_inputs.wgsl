// The rows of x of a tile in half precision: each is scaled by a power of two to magnitudes below 2^11, so that
// products with weights below 1 can be summed over a block.
import package::half_precision::{half_scale, half_unscale, max_magnitude};
import package::matmul_io::{p, load_x};
import package::matmul_tile::input_row;
import constants::{WG, EDGE_TOKENS};

// [token]: the largest magnitude of its row of x, as bits: those of floats that are not negative are ordered like them.
var<workgroup> largest: array<atomic<u32>, EDGE_TOKENS>;

// Finds the largest magnitudes of all tokens of the tile of workgroup `y`. Ends with a barrier.
fn find_largest(y: u32, lid: u32) {
    for (var i = lid; i < EDGE_TOKENS; i += WG) {
        atomicStore(&largest[i], 0u);
    }
    workgroupBarrier();
    // Eight invocations share a row and load adjacent columns.
    for (var i = lid / 8u; i < EDGE_TOKENS; i += WG / 8u) {
        let row = input_row(y, i);
        var m = 0.0;
        for (var g = lid % 8u; g < 8u * p.blocks; g += 8u) {
            m = max_magnitude(load_x(row, g), m);
        }
        atomicMax(&largest[i], bitcast<u32>(m));
    }
    workgroupBarrier();
}

// The factor by which token `i` of the tile is scaled.
fn input_scale(i: u32) -> f32 {
    return half_scale(bitcast<f32>(atomicLoad(&largest[i])));
}

// The factor that undoes the scaling of token `i` of the tile.
fn input_unscale(i: u32) -> f32 {
    return half_unscale(bitcast<f32>(atomicLoad(&largest[i])));
}

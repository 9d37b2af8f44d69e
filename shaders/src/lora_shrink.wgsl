// out[t, r] = dot(a[adapter of t, r, :], x[t, :]): the first half of a low-rank adapter.
//
// A workgroup computes ROWS rows of one token; neighbouring invocations take neighbouring columns.
// Tokens without an adapter read nothing; what is written for them is not read.
import constants::{WG, ROWS};

struct LoraShrinkParams {
    tokens: u32,
    rows: u32,
    cols: u32,
}

@group(0) @binding(0) var<uniform> p: LoraShrinkParams;
@group(0) @binding(1) var<storage, read> x: array<f32>; // [tokens, cols]
@group(0) @binding(2) var<storage, read> index: array<vec2<u32>>; // [tokens] (sequence, position)
@group(0) @binding(3) var<storage, read> adapters: array<u32>; // [batch]
@group(0) @binding(4) var<storage, read> a: array<f32>; // [slots, rows, cols]
@group(0) @binding(5) var<storage, read_write> out: array<f32>; // [tokens, rows]

const TILE = vec2<u32>(ROWS, 1u);

var<workgroup> partial: array<array<f32, WG>, ROWS>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let first_row = (wid.x + wid.z * groups.x) * ROWS;
    let t = min(wid.y, p.tokens - 1u);
    let adapter = adapters[index[t].x];
    // Every invocation reaches the barriers: none returns before.
    let cols = select(p.cols, 0u, adapter == 0u);
    var starts: array<u32, ROWS>;
    var sums: array<f32, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        starts[r] = ((max(adapter, 1u) - 1u) * p.rows + min(first_row + r, p.rows - 1u)) * p.cols;
        sums[r] = 0.0;
    }
    for (var c = lid; c < cols; c += WG) {
        let value = x[t * p.cols + c];
        for (var r = 0u; r < ROWS; r++) {
            sums[r] += a[starts[r] + c] * value;
        }
    }
    for (var r = 0u; r < ROWS; r++) {
        partial[r][lid] = sums[r];
    }
    for (var half = WG / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if lid < half {
            for (var r = 0u; r < ROWS; r++) {
                partial[r][lid] += partial[r][lid + half];
            }
        }
    }
    workgroupBarrier();
    if lid < ROWS && first_row + lid < p.rows && wid.y < p.tokens {
        out[t * p.rows + first_row + lid] = partial[lid][0];
    }
}

// y[t, r] += sum over j of b[adapter of t, j, first_row + r] * low[t, part * rank + j]: the second half
// of a low-rank adapter. An invocation does one row; neighbours read neighbouring elements of b.
import constants::WG;

struct LoraExpandParams {
    tokens: u32,
    rows: u32,
    rank: u32,
    parts: u32,
    first_row: u32,
    b_rows: u32,
    second: u32,
    third: u32,
}

@group(0) @binding(0) var<uniform> p: LoraExpandParams;
@group(0) @binding(1) var<storage, read> low: array<f32>; // [tokens, parts * rank]
@group(0) @binding(2) var<storage, read> index: array<vec2<u32>>; // [tokens] (sequence, position)
@group(0) @binding(3) var<storage, read> adapters: array<u32>; // [batch]
@group(0) @binding(4) var<storage, read> b: array<f32>; // [slots, rank, b_rows]
@group(0) @binding(5) var<storage, read_write> y: array<f32>; // [tokens, rows]

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let r = (wid.x + wid.z * groups.x) * WG + lid;
    let t = wid.y;
    if r >= p.rows || t >= p.tokens {
        return;
    }
    let adapter = adapters[index[t].x];
    if adapter == 0u {
        return;
    }
    let row = p.first_row + r;
    let part = u32(row >= p.second) + u32(row >= p.third);
    let start = (t * p.parts + part) * p.rank;
    let weights = (adapter - 1u) * p.rank * p.b_rows + row;
    var sum = 0.0;
    for (var j = 0u; j < p.rank; j++) {
        sum += b[weights + j * p.b_rows] * low[start + j];
    }
    y[t * p.rows + r] += sum;
}

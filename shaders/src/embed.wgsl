// Embedding gather: out[t, :] = scale * table[ids[t], :]. An invocation does one block of a row.
import package::encoding::{load_scales, load_block, SUPER};
import constants::WG;

struct EmbedParams {
    tokens: u32,
    rows: u32,
    row_offset: u32,
    cols: u32,
    blocks: u32,
    scale: f32,
    id_stride: u32,
    id_offset: u32,
}

@group(0) @binding(0) var<uniform> p: EmbedParams;
@group(0) @binding(1) var<storage, read> ids: array<u32>; // [tokens, id_stride]
@group(0) @binding(2) var<storage, read_write> out: array<f32>; // [tokens, cols]

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let b = (wid.x + wid.z * groups.x) * WG + lid;
    let t = wid.y;
    if b >= p.blocks || t >= p.tokens {
        return;
    }
    // An id below the chunk wraps to a number past its end.
    let row = ids[t * p.id_stride + p.id_offset] - p.row_offset;
    if row >= p.rows {
        return;
    }
    let block = row * p.blocks + b;
    var w = load_block(block, b % SUPER, load_scales(block / SUPER));
    for (var g = 0u; g < 8u; g++) {
        let v = w[g] * p.scale;
        let c = 32u * b + 4u * g;
        let o = t * p.cols + c;
        if c < p.cols { out[o] = v.x; }
        if c + 1u < p.cols { out[o + 1u] = v.y; }
        if c + 2u < p.cols { out[o + 2u] = v.z; }
        if c + 3u < p.cols { out[o + 3u] = v.w; }
    }
}

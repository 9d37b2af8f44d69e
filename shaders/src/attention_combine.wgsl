// Merges the parts of attention_split.wgsl. A workgroup computes one head of one token: each invocation sums
// one vec4 of a value, over every chunk or, if a value has fewer than WG vec4s, over some of them.
import package::attention_chunks::{chunk_count, part_offset, MAX_PARTS};
import package::attention_params::{p, store_out, with_sink, LOWEST};
import package::query::MAX_VALUE_VEC4S;
import package::workgroup_reduce::{workgroup_sum, workgroup_max};
import constants::WG;

const TILE = vec2<u32>(1u, 1u);

@group(0) @binding(1) var<storage, read> parts: array<vec4<f32>>; // [MAX_PARTS, heads, vec4s of a value + 1]

var<workgroup> weights: array<f32, MAX_PARTS>;
var<workgroup> lane_sums: array<vec4<f32>, WG>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let head = wid.x;
    let t = wid.y;
    let chunks = min(chunk_count(), MAX_PARTS);
    if head >= p.heads || t >= p.tokens || chunks == 1u {
        return;
    }
    let vec4s = clamp((p.value_dim + 3u) / 4u, 1u, MAX_VALUE_VEC4S);
    var lane_max = LOWEST;
    for (var chunk = lid; chunk < chunks; chunk += WG) {
        let of_chunk = parts[part_offset(t, chunk, head, vec4s) + vec4s].xy;
        lane_max = max(lane_max, select(LOWEST, of_chunk.x, of_chunk.y != 0.0));
    }
    let row_max = workgroup_max(lane_max, lid);
    var lane_total = 0.0;
    for (var chunk = lid; chunk < chunks; chunk += WG) {
        let of_chunk = parts[part_offset(t, chunk, head, vec4s) + vec4s].xy;
        let weight = select(0.0, exp(of_chunk.x - row_max), of_chunk.y != 0.0);
        weights[chunk] = weight;
        lane_total += weight * of_chunk.y;
    }
    // The barriers in `workgroup_sum` also order `weights` before their reads.
    let total = workgroup_sum(lane_total, lid);
    let lanes = WG / vec4s;
    var acc = vec4(0.0);
    if lid < lanes * vec4s {
        for (var chunk = lid / vec4s; chunk < chunks; chunk += lanes) {
            acc += weights[chunk] * parts[part_offset(t, chunk, head, vec4s) + lid % vec4s];
        }
    }
    lane_sums[lid] = acc;
    workgroupBarrier();
    if lid < vec4s {
        for (var i = 1u; i < lanes; i++) {
            acc += lane_sums[lid + i * vec4s];
        }
        store_out((t * p.heads + head) * p.value_dim, lid, acc, with_sink(head, row_max, total));
    }
}

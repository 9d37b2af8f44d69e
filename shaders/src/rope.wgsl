// Rotary positions (Su et al. 2021), in place. An invocation rotates one pair.
import constants::WG;

struct RopeParams {
    tokens: u32,
    heads: u32,
    head_dim: u32,
    rotary_dim: u32,
    stride: u32,
    offset: u32,
    interleaved: u32,
}

@group(0) @binding(0) var<uniform> p: RopeParams;
@group(0) @binding(1) var<storage, read_write> x: array<f32>; // [tokens, stride]
@group(0) @binding(2) var<storage, read> index: array<vec2<u32>>; // [tokens] (sequence, position)
@group(0) @binding(3) var<storage, read> table: array<vec2<f32>>; // [positions, rotary_dim / 2] (cosine, sine)

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let half = p.rotary_dim / 2u;
    let i = (wid.x + wid.z * groups.x) * WG + lid;
    let t = wid.y;
    if i >= half * p.heads || t >= p.tokens {
        return;
    }
    let pair = i % half;
    let head = t * p.stride + p.offset + (i / half) * p.head_dim;
    let a = head + select(pair, 2u * pair, p.interleaved != 0u);
    let b = head + select(pair + half, 2u * pair + 1u, p.interleaved != 0u);
    let turn = table[index[t].y * half + pair];
    let u = x[a];
    let v = x[b];
    x[a] = u * turn.x - v * turn.y;
    x[b] = v * turn.x + u * turn.y;
}

// out[i] = a[i] op b[i % b_len], the ops being a sum, a product and a sum with a scaled b.
import constants::WG;

struct ElementwiseParams {
    len: u32,
    b_len: u32,
    op: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> p: ElementwiseParams;
@group(0) @binding(1) var<storage, read> a: array<f32>; // [len]
@group(0) @binding(2) var<storage, read> b: array<f32>; // [b_len]
@group(0) @binding(3) var<storage, read_write> out: array<f32>; // [len]

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let i = (wid.x + wid.y * groups.x) * WG + lid;
    if i >= p.len {
        return;
    }
    let u = a[i];
    let v = b[i % p.b_len];
    if p.op == 2u {
        out[i] = u + p.scale * v;
    } else {
        out[i] = select(u + v, u * v, p.op == 1u);
    }
}

// out[i] = f(x[i]), f being an activation, a factor or a soft cap.
import package::activation::activate;
import constants::WG;

struct MapParams {
    len: u32,
    kind: u32,
    factor: f32,
}

@group(0) @binding(0) var<uniform> p: MapParams;
@group(0) @binding(1) var<storage, read> x: array<f32>; // [len]
@group(0) @binding(2) var<storage, read_write> out: array<f32>; // [len]

const TILE = vec2<u32>(WG, 1u);
const SCALE: u32 = 8u;
const SOFTCAP: u32 = 9u;

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
    let v = x[i];
    if p.kind == SCALE {
        out[i] = p.factor * v;
    } else if p.kind == SOFTCAP {
        // tanh's argument is bounded: some devices overflow inside it.
        out[i] = p.factor * tanh(clamp(v / p.factor, -20.0, 20.0));
    } else {
        out[i] = activate(v, p.kind);
    }
}

// Fused multiply-adds in registers, to measure a device's f32 rate. Each invocation computes 64 of them
// `len` times, which is 128 * len floating-point operations.
import package::measure_params::MeasureParams;
import constants::WG;

@group(0) @binding(0) var<uniform> p: MeasureParams;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>; // [1], in vec4s; factors below 1
@group(0) @binding(2) var<storage, read_write> out: array<f32>; // [invocations]

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let id = (wid.x + wid.y * groups.x) * WG + lid;
    if id >= p.invocations {
        return;
    }
    let m = x[0];
    let s = vec4(f32(id));
    // Eight independent chains hide the latency of an operation.
    var a0 = s;
    var a1 = s + 1.0;
    var a2 = s + 2.0;
    var a3 = s + 3.0;
    var a4 = s + 4.0;
    var a5 = s + 5.0;
    var a6 = s + 6.0;
    var a7 = s + 7.0;
    for (var i = 0u; i < p.len; i++) {
        a0 = fma(a0, m, s);
        a1 = fma(a1, m, s);
        a2 = fma(a2, m, s);
        a3 = fma(a3, m, s);
        a4 = fma(a4, m, s);
        a5 = fma(a5, m, s);
        a6 = fma(a6, m, s);
        a7 = fma(a7, m, s);
        a0 = fma(a0, m, s);
        a1 = fma(a1, m, s);
        a2 = fma(a2, m, s);
        a3 = fma(a3, m, s);
        a4 = fma(a4, m, s);
        a5 = fma(a5, m, s);
        a6 = fma(a6, m, s);
        a7 = fma(a7, m, s);
    }
    out[id] = dot(a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7, vec4(1.0));
}

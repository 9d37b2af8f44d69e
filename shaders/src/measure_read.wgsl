// Reads a buffer once, to measure a device's read bandwidth. The sums are written, so that the compiler
// cannot remove the reads.
import package::measure_params::MeasureParams;
import constants::WG;

@group(0) @binding(0) var<uniform> p: MeasureParams;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>; // [len], in vec4s
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
    var a = vec4(0.0);
    var b = vec4(0.0);
    var i = id;
    // Two independent sums hide the latency of an addition.
    for (; i + p.invocations < p.len; i += 2u * p.invocations) {
        a += x[i];
        b += x[i + p.invocations];
    }
    if i < p.len {
        a += x[i];
    }
    out[id] = dot(a + b, vec4(1.0));
}

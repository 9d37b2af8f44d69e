struct Limits {
    low: u32,
    high: vec2<u32>,
}

@group(0) @binding(0) var<storage, read_write> x: array<u32>;
var<workgroup> limits: Limits;
var<workgroup> n: u32;
var<workgroup> hits: atomic<u32>;
var<workgroup> lanes: array<vec2<u32>, 64>;

struct Inputs {
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
}

@compute @workgroup_size(4, 4, 4)
fn main(
    inputs: Inputs,
    @builtin(local_invocation_index) index: u32,
    @builtin(global_invocation_id) gid: vec3<u32>,
) {
    if index == 0u {
        n = x[0];
        limits = Limits(1u, vec2(n, 5u));
    }
    atomicAdd(&hits, 1u);
    lanes[index] = inputs.lid.xy;
    storageBarrier();
    let limit = workgroupUniformLoad(&limits).high;
    for (var i = workgroupUniformLoad(&n); i < limit.x; i++) {
        x[i + gid.x] = lanes[63u - index].y + inputs.wid.z * inputs.groups.x + gid.y;
    }
    workgroupBarrier();
    x[index] = atomicLoad(&hits);
}

enable f16;
enable wgpu_cooperative_matrix;

@group(0) @binding(0) var<storage> a: array<f16>;
@group(0) @binding(1) var<storage, read_write> c: array<f32>;
var<workgroup> b: array<array<f16, 512>, 2>;

@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    b[0][lid] = 1.0h;
    workgroupBarrier();
    var sums: array<coop_mat16x16<f32, C>, 2>;
    sums[0] = coopLoad<coop_mat16x16<f32, C>>(&c[256u * wid.x], 16u);
    for (var k = 0u; k < 4u; k++) {
        let x = coopLoadT<coop_mat16x16<f16, A>>(&a[16u * k], 64u);
        let y = coopLoad<coop_mat16x16<f16, B>>(&b[k & 1u][0], 16u);
        sums[k & 1u] = coopMultiplyAdd(x, y, sums[k & 1u]);
    }
    let at = 256u * wid.x;
    let stride = 16u;
    coopStoreT(sums[0], &c[at], stride);
    coopStore(sums[1], &c[at + 256u], stride);
}

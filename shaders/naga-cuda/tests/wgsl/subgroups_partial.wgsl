enable f16;
@group(0) @binding(0) var<storage, read_write> x: array<f16>;
@group(0) @binding(1) var<storage, read_write> u: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> i: array<vec3<i32>>;

@compute @workgroup_size(45)
fn main(
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_size) size: u32,
    @builtin(num_subgroups) count: u32,
    @builtin(local_invocation_index) lid: u32,
) {
    let a = x[lid];
    let b = u[lid];
    let c = i[lid];
    x[lid] = subgroupAdd(a) + subgroupMul(a) + subgroupMin(a) + subgroupMax(a) + subgroupInclusiveAdd(a) +
        subgroupExclusiveMul(a) + subgroupInclusiveMul(a) + subgroupExclusiveAdd(a);
    u[lid] = subgroupAnd(b) + subgroupOr(b) + subgroupXor(b) + subgroupAdd(b) + subgroupBallot(lane < 4u) + subgroupBallot();
    i[lid] = subgroupMin(c) + subgroupExclusiveAdd(c) + subgroupShuffleXor(c, 3u) + subgroupExclusiveMul(c);
    x[lid + 1u] = subgroupBroadcast(a, 5u) + subgroupBroadcastFirst(a) + subgroupShuffle(a, lane ^ 1u) +
        subgroupShuffleUp(a, 1u) + subgroupShuffleDown(a, 2u) + quadBroadcast(a, 2u) + quadSwapX(a) + quadSwapY(a) +
        quadSwapDiagonal(a);
    if subgroupAll(a > 1.0h) || subgroupAny(b.x == 3u) {
        u[0].x = subgroup * size + count;
    }
    subgroupBarrier();
}

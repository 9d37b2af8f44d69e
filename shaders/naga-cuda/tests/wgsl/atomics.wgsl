struct State {
    counters: array<atomic<u32>>,
}

@group(0) @binding(0) var<storage, read_write> s: State;
@group(0) @binding(1) var<storage, read_write> i: atomic<i32>;
var<workgroup> w: array<atomic<u32>, 8>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lid: u32) {
    atomicStore(&w[lid & 7u], 0u);
    workgroupBarrier();
    atomicAdd(&w[lid], 2u);
    let a = atomicSub(&s.counters[lid], 3u) + atomicMin(&s.counters[1], lid) + atomicMax(&w[2], lid);
    let b = atomicAnd(&w[3], a) | atomicOr(&w[4], a) ^ atomicXor(&w[5], 7u) + atomicExchange(&w[6], a);
    let c = atomicCompareExchangeWeak(&s.counters[lid], a, b);
    let d = atomicCompareExchangeWeak(&i, 3, -4);
    if c.exchanged && !d.exchanged {
        atomicStore(&s.counters[0], c.old_value + u32(d.old_value));
    }
    atomicMax(&i, i32(atomicLoad(&w[lid])) + atomicLoad(&i));
    atomicSub(&i, 1);
}

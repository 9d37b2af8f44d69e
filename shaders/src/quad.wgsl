// Reductions over four invocations next to each other. All invocations of a subgroup must call them together.

fn quad_sum(v: f32) -> f32 {
    let sum = v + subgroupShuffleXor(v, 1u);
    return sum + subgroupShuffleXor(sum, 2u);
}

fn quad_max(v: f32) -> f32 {
    let largest = max(v, subgroupShuffleXor(v, 1u));
    return max(largest, subgroupShuffleXor(largest, 2u));
}

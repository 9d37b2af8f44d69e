// A head of the cache in f32: its vec4s.
import package::query::query;
import constants::CACHE;

@if(!write) @group(0) @binding(CACHE) var<storage, read> k_cache: array<vec4<f32>>;
@if(!write) @group(0) @binding(CACHE + 1) var<storage, read> v_cache: array<vec4<f32>>;
@if(write) @group(0) @binding(CACHE) var<storage, read_write> k_cache: array<vec4<f32>>;
@if(write) @group(0) @binding(CACHE + 1) var<storage, read_write> v_cache: array<vec4<f32>>;

// vec4s that one invocation writes.
const UNIT: u32 = 1u;

// Where a head begins.
fn head_at(row: u32, quads: u32) -> u32 {
    return row * quads;
}

// The product of the query with the key at `head`.
fn score(head: u32, quads: u32) -> f32 {
    var sum = 0.0;
    for (var i = 0u; i < quads; i++) {
        sum += dot(query[i], k_cache[head + i]);
    }
    return sum;
}

// A vec4 of the value at `head`.
fn value(head: u32, quads: u32, quad: u32) -> vec4<f32> {
    return v_cache[head + quad];
}

fn store_key(head: u32, quads: u32, unit: u32, fours: array<vec4<f32>, UNIT>) {
    k_cache[head + unit] = fours[0];
}

fn store_value(head: u32, quads: u32, unit: u32, fours: array<vec4<f32>, UNIT>) {
    v_cache[head + unit] = fours[0];
}

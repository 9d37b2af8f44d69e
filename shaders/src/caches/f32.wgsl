// A KV cache in single precision: a head takes one element of the array for each of its vec4s.
import package::query::query;
@if(halves) import package::half_precision::finite_halves;
import constants::CACHE;

@if(!write) @group(0) @binding(CACHE) var<storage, read> k_cache: array<vec4<f32>>; // [pages, page_size, kv_heads, elements of a head]
@if(!write) @group(0) @binding(CACHE + 1) var<storage, read> v_cache: array<vec4<f32>>; // [pages, page_size, kv_heads, elements of a head]
@if(write) @group(0) @binding(CACHE) var<storage, read_write> k_cache: array<vec4<f32>>; // [pages, page_size, kv_heads, elements of a head]
@if(write && !keys) @group(0) @binding(CACHE + 1) var<storage, read_write> v_cache: array<vec4<f32>>; // [pages, page_size, kv_heads, elements of a head]

// vec4s that one invocation writes.
const UNIT: u32 = 1u;

// The offset of a head in the cache, in elements of its array.
fn head_offset(row: u32, vec4s: u32) -> u32 {
    return row * vec4s;
}

// The number of heads that both the key and the value cache can hold.
fn cached_heads(vec4s: u32) -> u32 {
    @if(!keys) let len = min(arrayLength(&k_cache), arrayLength(&v_cache));
    @if(keys) let len = arrayLength(&k_cache);
    return len / max(head_offset(1u, vec4s), 1u);
}

// The dot product of the query with the key at offset `head`.
fn query_dot_key(head: u32, vec4s: u32) -> f32 {
    var sum = 0.0;
    for (var i = 0u; i < vec4s; i++) {
        sum += dot(query[i], k_cache[head + i]);
    }
    return sum;
}

// Vec4 `i` of the key at offset `head`.
fn key_vec4(head: u32, vec4s: u32, i: u32) -> vec4<f32> {
    return k_cache[head + i];
}

// Vec4s `i` to `i + 3` of the key at offset `head`; `i` is a multiple of 4.
fn key_vec4s(head: u32, vec4s: u32, i: u32) -> array<vec4<f32>, 4> {
    var four: array<vec4<f32>, 4>;
    for (var u = 0u; u < 4u; u++) {
        four[u] = k_cache[head + i + u];
    }
    return four;
}

// Vec4 `i` of the value at offset `head`.
@if(!keys)
fn value_vec4(head: u32, vec4s: u32, i: u32) -> vec4<f32> {
    return v_cache[head + i];
}

// Vec4 `i` of the key, and of the value, as halves.
@if(halves)
fn key_halves(head: u32, vec4s: u32, i: u32) -> vec4<f16> {
    return finite_halves(key_vec4(head, vec4s, i));
}

@if(halves)
fn value_halves(head: u32, vec4s: u32, i: u32) -> vec4<f16> {
    return finite_halves(value_vec4(head, vec4s, i));
}

// Stores unit `unit` of the key at offset `head`.
fn store_key(head: u32, vec4s: u32, unit: u32, elements: array<vec4<f32>, UNIT>) {
    k_cache[head + unit] = elements[0];
}

// Stores unit `unit` of the value at offset `head`.
@if(!keys)
fn store_value(head: u32, vec4s: u32, unit: u32, elements: array<vec4<f32>, UNIT>) {
    v_cache[head + unit] = elements[0];
}

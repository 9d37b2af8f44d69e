// A KV cache in half precision: a head takes two words for each of its vec4s, of which it has an even number: the last
// may be unused. Kernels in which an invocation reads whole keys (`whole_keys`), or pairs of vec4s of values
// (`whole_values`), load two vec4s at once. Kernels that compute with halves (`halves`) load them as such.
import package::query::query;
import constants::CACHE;

@if(!write && whole_keys) @group(0) @binding(CACHE) var<storage, read> k_cache: array<vec4<u32>>; // [pages, page_size, kv_heads, elements of a head]
@if(!write && !whole_keys && !halves) @group(0) @binding(CACHE) var<storage, read> k_cache: array<vec2<u32>>; // [pages, page_size, kv_heads, elements of a head]
@if(halves) @group(0) @binding(CACHE) var<storage, read> k_cache: array<vec4<f16>>; // [pages, page_size, kv_heads, elements of a head]
@if(!write && whole_values) @group(0) @binding(CACHE + 1) var<storage, read> v_cache: array<vec4<u32>>; // [pages, page_size, kv_heads, elements of a head]
@if(!write && !whole_values && !halves) @group(0) @binding(CACHE + 1) var<storage, read> v_cache: array<vec2<u32>>; // [pages, page_size, kv_heads, elements of a head]
@if(halves) @group(0) @binding(CACHE + 1) var<storage, read> v_cache: array<vec4<f16>>; // [pages, page_size, kv_heads, elements of a head]
@if(write) @group(0) @binding(CACHE) var<storage, read_write> k_cache: array<vec2<u32>>; // [pages, page_size, kv_heads, elements of a head]
@if(write && !keys) @group(0) @binding(CACHE + 1) var<storage, read_write> v_cache: array<vec2<u32>>; // [pages, page_size, kv_heads, elements of a head]

// vec4s that one invocation writes.
const UNIT: u32 = 1u;
// The largest finite half-precision number.
const F16_MAX = vec4<f32>(65504.0);

// The offset of a head in the cache, in vec4s.
fn head_offset(row: u32, vec4s: u32) -> u32 {
    return row * (vec4s + vec4s % 2u);
}

// The number of heads that both the key and the value cache can hold.
fn cached_heads(vec4s: u32) -> u32 {
    @if(whole_keys) let k_len = 2u * arrayLength(&k_cache);
    @if(!whole_keys) let k_len = arrayLength(&k_cache);
    @if(whole_values) let v_len = 2u * arrayLength(&v_cache);
    @if(!keys && !whole_values) let v_len = arrayLength(&v_cache);
    @if(!keys) let len = min(k_len, v_len);
    @if(keys) let len = k_len;
    return len / max(head_offset(1u, vec4s), 1u);
}

fn unpack_vec4(halves: vec2<u32>) -> vec4<f32> {
    return vec4(unpack2x16float(halves.x), unpack2x16float(halves.y));
}

// Packs a vec4, with numbers clamped to the finite range of half precision.
fn pack_vec4(v: vec4<f32>) -> vec2<u32> {
    let clamped = clamp(v, -F16_MAX, F16_MAX);
    return vec2(pack2x16float(clamped.xy), pack2x16float(clamped.zw));
}

// The dot product of the query with the key at offset `head`.
fn query_dot_key(head: u32, vec4s: u32) -> f32 {
    var sum = 0.0;
    for (var i = 0u; i < vec4s; i++) {
        sum += dot(query[i], key_vec4(head, vec4s, i));
    }
    return sum;
}

// Vec4 `i` of the key at offset `head`.
@if(!halves)
fn key_vec4(head: u32, vec4s: u32, i: u32) -> vec4<f32> {
    @if(whole_keys) let pair = k_cache[(head + i) / 2u];
    @if(whole_keys) let halves = select(pair.xy, pair.zw, i % 2u == 1u);
    @if(!whole_keys) let halves = k_cache[head + i];
    return unpack_vec4(halves);
}

// Vec4s `i` to `i + 3` of the key at offset `head`; `i` is a multiple of 4.
@if(whole_keys)
fn key_vec4s(head: u32, vec4s: u32, i: u32) -> array<vec4<f32>, 4> {
    let pairs = array(k_cache[(head + i) / 2u], k_cache[(head + i) / 2u + 1u]);
    let halves = array(pairs[0].xy, pairs[0].zw, pairs[1].xy, pairs[1].zw);
    return array(unpack_vec4(halves[0]), unpack_vec4(halves[1]), unpack_vec4(halves[2]), unpack_vec4(halves[3]));
}

// Load `i` of the key at offset `head`: vec4s `2 * i` and `2 * i + 1`, as halves.
@if(whole_keys)
fn key_load(head: u32, i: u32) -> vec4<u32> {
    return k_cache[head / 2u + i];
}

// The same of the value at offset `head`.
@if(whole_values)
fn value_load(head: u32, i: u32) -> vec4<u32> {
    return v_cache[head / 2u + i];
}

// What tensor cores multiply: a load as it is.
@if(mma) alias Load = vec4<u32>;
// vec4s of a load, and the halves whose sum an element is.
@if(mma) const LOAD_VEC4S: u32 = 2u;
@if(mma) const PARTS: u32 = 1u;
@if(mma) alias Halves = array<array<vec2<u32>, LOAD_VEC4S>, PARTS>;

// Load `i` of a key without what is beyond the head's end, which may be in the middle of the load.
@if(mma)
fn without_rest(load: Load, i: u32, vec4s: u32) -> Load {
    return vec4(load.xy, select(load.zw, vec2(0u), 2u * i + 1u == vec4s));
}

@if(mma)
fn halves_of(load: Load, scale: u32) -> Halves {
    return array(array(load.xy, load.zw));
}

// There are no scales.
@if(mma)
fn key_scales(head: u32, vec4s: u32, group: u32) -> vec4<u32> {
    return vec4(0u);
}

@if(mma)
fn value_scales(head: u32, vec4s: u32, group: u32) -> vec4<u32> {
    return vec4(0u);
}

// Vec4 `i` of the value at offset `head`.
@if(!keys && !whole_values && !halves)
fn value_vec4(head: u32, vec4s: u32, i: u32) -> vec4<f32> {
    return unpack_vec4(v_cache[head + i]);
}

// Vec4 `i` of the key, and of the value, as halves.
@if(halves)
fn key_halves(head: u32, vec4s: u32, i: u32) -> vec4<f16> {
    return k_cache[head + i];
}

@if(halves)
fn value_halves(head: u32, vec4s: u32, i: u32) -> vec4<f16> {
    return v_cache[head + i];
}

// Stores unit `unit` of the key at offset `head`.
fn store_key(head: u32, vec4s: u32, unit: u32, elements: array<vec4<f32>, UNIT>) {
    k_cache[head + unit] = pack_vec4(elements[0]);
}

// Stores unit `unit` of the value at offset `head`.
@if(!keys)
fn store_value(head: u32, vec4s: u32, unit: u32, elements: array<vec4<f32>, UNIT>) {
    v_cache[head + unit] = pack_vec4(elements[0]);
}

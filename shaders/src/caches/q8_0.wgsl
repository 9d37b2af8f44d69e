// A KV cache in q8_0. A head is stored as blocks of 32 signed bytes `q`, of which the last ends with the
// head, followed by the blocks' scales `d` in half precision, two per word. An element is `q * d`.
import package::query::query;
import package::unpack::{signed_bytes, half_at};
@if(halves) import package::half_precision::finite_halves;
import constants::CACHE;

@if(!write) @group(0) @binding(CACHE) var<storage, read> k_cache: array<u32>; // [pages, page_size, kv_heads, elements of a head]
@if(!write) @group(0) @binding(CACHE + 1) var<storage, read> v_cache: array<u32>; // [pages, page_size, kv_heads, elements of a head]
@if(write) @group(0) @binding(CACHE) var<storage, read_write> k_cache: array<u32>; // [pages, page_size, kv_heads, elements of a head]
@if(write && !keys) @group(0) @binding(CACHE + 1) var<storage, read_write> v_cache: array<u32>; // [pages, page_size, kv_heads, elements of a head]

// vec4s of a block.
const BLOCK: u32 = 8u;
// vec4s that one invocation writes: two blocks, whose scales share a word.
const UNIT: u32 = 16u;

// The offset of a head in the cache, in elements of its array.
fn head_offset(row: u32, vec4s: u32) -> u32 {
    return row * (vec4s + (vec4s + UNIT - 1u) / UNIT);
}

// The number of heads that both the key and the value cache can hold.
fn cached_heads(vec4s: u32) -> u32 {
    @if(!keys) let len = min(arrayLength(&k_cache), arrayLength(&v_cache));
    @if(keys) let len = arrayLength(&k_cache);
    return len / max(head_offset(1u, vec4s), 1u);
}

// The dot product of the query with the key at offset `head`.
fn query_dot_key(head: u32, vec4s: u32) -> f32 {
    var total = 0.0;
    for (var first = 0u; first < vec4s; first += BLOCK) {
        var sum = 0.0;
        for (var i = first; i < min(first + BLOCK, vec4s); i++) {
            sum += dot(query[i], signed_bytes(k_cache[head + i]));
        }
        total += sum * half_at(k_cache[head + vec4s + first / UNIT], first / BLOCK);
    }
    return total;
}

// Vec4 `i` of the key at offset `head`.
fn key_vec4(head: u32, vec4s: u32, i: u32) -> vec4<f32> {
    return signed_bytes(k_cache[head + i]) * half_at(k_cache[head + vec4s + i / UNIT], i / BLOCK);
}

// Vec4s `i` to `i + 3` of the key at offset `head`, which are in one block; `i` is a multiple of 4.
fn key_vec4s(head: u32, vec4s: u32, i: u32) -> array<vec4<f32>, 4> {
    let scale = half_at(k_cache[head + vec4s + i / UNIT], i / BLOCK);
    var four: array<vec4<f32>, 4>;
    for (var u = 0u; u < 4u; u++) {
        four[u] = signed_bytes(k_cache[head + i + u]) * scale;
    }
    return four;
}

// Vec4 `i` of the value at offset `head`.
@if(!keys)
fn value_vec4(head: u32, vec4s: u32, i: u32) -> vec4<f32> {
    let scale = half_at(v_cache[head + vec4s + i / UNIT], i / BLOCK);
    return signed_bytes(v_cache[head + i]) * scale;
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

// The words of a unit's vec4s, followed by the word with its two scales.
fn quantised(elements: array<vec4<f32>, UNIT>) -> array<u32, UNIT + 1u> {
    var words: array<u32, UNIT + 1u>;
    var scales = vec2(0.0);
    for (var block = 0u; block < 2u; block++) {
        var lane_max = vec4(0.0);
        for (var i = 0u; i < BLOCK; i++) {
            lane_max = max(lane_max, abs(elements[block * BLOCK + i]));
        }
        // Clamped so that the scale is finite in half precision.
        let max_abs = min(max(max(lane_max.x, lane_max.y), max(lane_max.z, lane_max.w)), 8.0e6);
        let scale = max_abs / 127.0;
        let inverse = select(127.0 / max_abs, 0.0, max_abs == 0.0);
        scales[block] = scale;
        for (var i = 0u; i < BLOCK; i++) {
            let q = vec4<i32>(round(clamp(elements[block * BLOCK + i] * inverse, vec4(-127.0), vec4(127.0))));
            let bytes = vec4<u32>(q) & vec4(0xffu);
            words[block * BLOCK + i] = bytes.x | (bytes.y << 8u) | (bytes.z << 16u) | (bytes.w << 24u);
        }
    }
    words[UNIT] = pack2x16float(scales);
    return words;
}

// Stores unit `unit` of the key at offset `head`.
fn store_key(head: u32, vec4s: u32, unit: u32, elements: array<vec4<f32>, UNIT>) {
    let words = quantised(elements);
    for (var i = 0u; i < min(UNIT, vec4s - unit * UNIT); i++) {
        k_cache[head + unit * UNIT + i] = words[i];
    }
    k_cache[head + vec4s + unit] = words[UNIT];
}

// Stores unit `unit` of the value at offset `head`.
@if(!keys)
fn store_value(head: u32, vec4s: u32, unit: u32, elements: array<vec4<f32>, UNIT>) {
    let words = quantised(elements);
    for (var i = 0u; i < min(UNIT, vec4s - unit * UNIT); i++) {
        v_cache[head + unit * UNIT + i] = words[i];
    }
    v_cache[head + vec4s + unit] = words[UNIT];
}

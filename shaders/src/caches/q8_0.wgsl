// A KV cache in q8_0. A head is stored as blocks of 32 signed bytes `q`, followed by the blocks' scales `d` in half precision, two
// per word. An element is `q * d`. Blocks and scales are padded with zeros to 16 bytes each. Kernels in which an invocation reads
// whole keys (`whole_keys`) or values (`whole_values`) load 16 bytes at once, and those that read chunks of eight elements
// (`chunks`) 8 bytes.
@if(mma) import package::mma::{cuda_add_f16x2, cuda_byte_perm, cuda_fma_f16x2};
import package::query::query;
import package::unpack::{signed_bytes, half_at};
@if(halves) import package::half_precision::finite_halves;
import constants::CACHE;

@if(!write && !whole_keys) @group(0) @binding(CACHE) var<storage, read> k_cache: array<u32>; // [pages, page_size, kv_heads, words of a head]
@if(whole_keys && !chunks) @group(0) @binding(CACHE) var<storage, read> k_cache: array<vec4<u32>>; // [pages, page_size, kv_heads, words of a head]
@if(chunks) @group(0) @binding(CACHE) var<storage, read> k_cache: array<vec2<u32>>; // [pages, page_size, kv_heads, words of a head]
@if(!write && !whole_values) @group(0) @binding(CACHE + 1) var<storage, read> v_cache: array<u32>; // [pages, page_size, kv_heads, words of a head]
@if(whole_values && !chunks) @group(0) @binding(CACHE + 1) var<storage, read> v_cache: array<vec4<u32>>; // [pages, page_size, kv_heads, words of a head]
@if(chunks) @group(0) @binding(CACHE + 1) var<storage, read> v_cache: array<vec2<u32>>; // [pages, page_size, kv_heads, words of a head]
@if(write) @group(0) @binding(CACHE) var<storage, read_write> k_cache: array<u32>; // [pages, page_size, kv_heads, words of a head]
@if(write && !keys) @group(0) @binding(CACHE + 1) var<storage, read_write> v_cache: array<u32>; // [pages, page_size, kv_heads, words of a head]

// vec4s of a block.
const BLOCK: u32 = 8u;
// vec4s that one invocation writes: two blocks, whose scales share a word.
const UNIT: u32 = 16u;
// Words of an element of the arrays.
@if(!whole_keys) const KEY_WORDS: u32 = 1u;
@if(whole_keys && !chunks) const KEY_WORDS: u32 = 4u;
@if(!keys && !whole_values) const VALUE_WORDS: u32 = 1u;
@if(whole_values && !chunks) const VALUE_WORDS: u32 = 4u;
@if(chunks) const KEY_WORDS: u32 = 2u;
@if(chunks) const VALUE_WORDS: u32 = 2u;

// The words of a head's blocks, and those of its scales.
fn block_words(vec4s: u32) -> u32 {
    return (vec4s + 3u) / 4u * 4u;
}

fn scale_words(vec4s: u32) -> u32 {
    return (vec4s + 63u) / 64u * 4u;
}

// The offset of a head in the cache, in words.
fn head_offset(row: u32, vec4s: u32) -> u32 {
    return row * (block_words(vec4s) + scale_words(vec4s));
}

// The number of heads that both the key and the value cache can hold.
fn cached_heads(vec4s: u32) -> u32 {
    let k_len = KEY_WORDS * arrayLength(&k_cache);
    @if(!keys) let len = min(k_len, VALUE_WORDS * arrayLength(&v_cache));
    @if(keys) let len = k_len;
    return len / max(head_offset(1u, vec4s), 1u);
}

// A word of the key cache, and of the value cache.
@if(!whole_keys)
fn key_word(at: u32) -> u32 {
    return k_cache[at];
}

@if(whole_keys)
fn key_word(at: u32) -> u32 {
    return k_cache[at / KEY_WORDS][at % KEY_WORDS];
}

@if(!keys && !whole_values)
fn value_word(at: u32) -> u32 {
    return v_cache[at];
}

@if(whole_values)
fn value_word(at: u32) -> u32 {
    return v_cache[at / VALUE_WORDS][at % VALUE_WORDS];
}

// The scale of vec4 `i` of the key at offset `head`.
fn key_scale(head: u32, vec4s: u32, i: u32) -> f32 {
    return half_at(key_word(head + block_words(vec4s) + i / UNIT), i / BLOCK);
}

// The dot product of the query with the key at offset `head`.
fn query_dot_key(head: u32, vec4s: u32) -> f32 {
    var total = 0.0;
    for (var first = 0u; first < vec4s; first += BLOCK) {
        var sum = 0.0;
        for (var i = first; i < min(first + BLOCK, vec4s); i++) {
            sum += dot(query[i], signed_bytes(key_word(head + i)));
        }
        total += sum * key_scale(head, vec4s, first);
    }
    return total;
}

// Vec4 `i` of the key at offset `head`.
fn key_vec4(head: u32, vec4s: u32, i: u32) -> vec4<f32> {
    return signed_bytes(key_word(head + i)) * key_scale(head, vec4s, i);
}

// Vec4s `i` to `i + 3` of the key at offset `head`, which are in one block; `i` is a multiple of 4.
@if(whole_keys && !chunks)
fn key_vec4s(head: u32, vec4s: u32, i: u32) -> array<vec4<f32>, 4> {
    let scale = key_scale(head, vec4s, i);
    let words = k_cache[(head + i) / 4u];
    return array(
        signed_bytes(words.x) * scale,
        signed_bytes(words.y) * scale,
        signed_bytes(words.z) * scale,
        signed_bytes(words.w) * scale,
    );
}

// Vec4 `i` of the value at offset `head`.
@if(!keys)
fn value_vec4(head: u32, vec4s: u32, i: u32) -> vec4<f32> {
    let scale = half_at(value_word(head + block_words(vec4s) + i / UNIT), i / BLOCK);
    return signed_bytes(value_word(head + i)) * scale;
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

// What an invocation loads at once, and its vec4s.
@if(mma && !chunks) alias Load = vec4<u32>;
@if(mma && !chunks) const LOAD_VEC4S: u32 = 4u;
@if(chunks) alias Load = vec2<u32>;
@if(chunks) const LOAD_VEC4S: u32 = 2u;
// Halves whose sum an element is: together they have all bits of a product of a byte and a half.
@if(mma) const PARTS: u32 = 2u;
@if(mma) alias Halves = array<array<vec2<u32>, LOAD_VEC4S>, PARTS>;

// Load `i` of the key at offset `head`.
@if(mma)
fn key_load(head: u32, i: u32) -> Load {
    return k_cache[head / LOAD_VEC4S + i];
}

// The same of the value at offset `head`.
@if(mma)
fn value_load(head: u32, i: u32) -> Load {
    return v_cache[head / LOAD_VEC4S + i];
}

// Zeros follow a head's end.
@if(mma)
fn without_rest(load: Load, i: u32, vec4s: u32) -> Load {
    return load;
}

// The words with the scales of vec4 `i` of the key and of the value at offset `head`.
@if(chunks)
fn scales_of(head: u32, vec4s: u32, i: u32) -> vec2<u32> {
    let at = head + block_words(vec4s) + i / UNIT;
    return vec2(key_word(at), value_word(at));
}

// The scales of group `group` of eight blocks of the key at offset `head`.
@if(mma && !chunks)
fn key_scales(head: u32, vec4s: u32, group: u32) -> vec4<u32> {
    return k_cache[(head + block_words(vec4s)) / 4u + group];
}

// The same of the value at offset `head`.
@if(mma && !chunks)
fn value_scales(head: u32, vec4s: u32, group: u32) -> vec4<u32> {
    return v_cache[(head + block_words(vec4s)) / 4u + group];
}

// The bytes of a word as halves, the first two in a word and the last two.
@if(mma)
fn byte_halves(word: u32) -> vec2<u32> {
    // The bits of the half 1024 + n end with those of the integer `n` below 1024; here `n` is a byte plus 128.
    let low = cuda_byte_perm(word ^ 0x80808080u, 0x64646464u, 0x4140u);
    let high = cuda_byte_perm(word ^ 0x80808080u, 0x64646464u, 0x4342u);
    return vec2(cuda_add_f16x2(low, 0xe480e480u), cuda_add_f16x2(high, 0xe480e480u));
}

// The elements of a load with the scale that both halves of `scale` are. The sum of both parts is exact: a product is a multiple
// of 2^-24 below 2^16, and has at most 18 bits.
@if(mma)
fn halves_of(load: Load, scale: u32) -> Halves {
    var halves: Halves;
    for (var i = 0u; i < LOAD_VEC4S; i++) {
        let q = byte_halves(load[i]);
        for (var j = 0u; j < 2u; j++) {
            let first = cuda_fma_f16x2(q[j], scale, 0u);
            halves[0][i][j] = first;
            halves[1][i][j] = cuda_fma_f16x2(q[j], scale, first ^ 0x80008000u);
        }
    }
    return halves;
}

// The largest magnitude: 512 times that of a byte.
const LARGEST: f32 = 65024.0;

// The words of a unit's vec4s, followed by the word with its two scales.
fn quantised(elements: array<vec4<f32>, UNIT>) -> array<u32, UNIT + 1u> {
    var words: array<u32, UNIT + 1u>;
    var scales = vec2(0.0);
    for (var block = 0u; block < 2u; block++) {
        var lane_max = vec4(0.0);
        for (var i = 0u; i < BLOCK; i++) {
            lane_max = max(lane_max, abs(elements[block * BLOCK + i]));
        }
        let max_abs = min(max(max(lane_max.x, lane_max.y), max(lane_max.z, lane_max.w)), LARGEST);
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

// Where a unit's scales are, behind the head's blocks, and the end of what it writes: the last unit pads scales with zeros.
fn unit_scales(vec4s: u32, unit: u32) -> vec2<u32> {
    let is_last = (unit + 1u) * UNIT >= vec4s;
    return block_words(vec4s) + vec2(unit, select(unit + 1u, scale_words(vec4s), is_last));
}

// Stores unit `unit` of the key at offset `head`.
fn store_key(head: u32, vec4s: u32, unit: u32, elements: array<vec4<f32>, UNIT>) {
    let words = quantised(elements);
    for (var i = 0u; i < min(UNIT, block_words(vec4s) - unit * UNIT); i++) {
        k_cache[head + unit * UNIT + i] = words[i];
    }
    let scales = unit_scales(vec4s, unit);
    for (var i = scales.x; i < scales.y; i++) {
        k_cache[head + i] = select(0u, words[UNIT], i == scales.x);
    }
}

// Stores unit `unit` of the value at offset `head`.
@if(!keys)
fn store_value(head: u32, vec4s: u32, unit: u32, elements: array<vec4<f32>, UNIT>) {
    let words = quantised(elements);
    for (var i = 0u; i < min(UNIT, block_words(vec4s) - unit * UNIT); i++) {
        v_cache[head + unit * UNIT + i] = words[i];
    }
    let scales = unit_scales(vec4s, unit);
    for (var i = scales.x; i < scales.y; i++) {
        v_cache[head + i] = select(0u, words[UNIT], i == scales.x);
    }
}

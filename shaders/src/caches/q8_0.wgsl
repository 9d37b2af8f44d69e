// A head of the cache in q8_0: blocks of 32 signed bytes `q`, the last one as short as the head ends,
// then the blocks' scales `d`, halves, two in a word. An element is `q * d`.
import package::query::query;
import package::unpack::{signed_bytes, half_at};
import constants::CACHE;

@if(!write) @group(0) @binding(CACHE) var<storage, read> k_cache: array<u32>;
@if(!write) @group(0) @binding(CACHE + 1) var<storage, read> v_cache: array<u32>;
@if(write) @group(0) @binding(CACHE) var<storage, read_write> k_cache: array<u32>;
@if(write) @group(0) @binding(CACHE + 1) var<storage, read_write> v_cache: array<u32>;

// vec4s of a block.
const BLOCK: u32 = 8u;
// vec4s that one invocation writes: those whose scales share a word.
const UNIT: u32 = 16u;

// Where a head begins.
fn head_at(row: u32, quads: u32) -> u32 {
    return row * (quads + (quads + UNIT - 1u) / UNIT);
}

// The product of the query with the key at `head`.
fn score(head: u32, quads: u32) -> f32 {
    var total = 0.0;
    for (var first = 0u; first < quads; first += BLOCK) {
        var sum = 0.0;
        for (var i = first; i < min(first + BLOCK, quads); i++) {
            sum += dot(query[i], signed_bytes(k_cache[head + i]));
        }
        total += sum * half_at(k_cache[head + quads + first / UNIT], first / BLOCK);
    }
    return total;
}

// A vec4 of the value at `head`.
fn value(head: u32, quads: u32, quad: u32) -> vec4<f32> {
    let scale = half_at(v_cache[head + quads + quad / UNIT], quad / BLOCK);
    return signed_bytes(v_cache[head + quad]) * scale;
}

// The words of some vec4s, and last that of their scales.
fn quantised(fours: array<vec4<f32>, UNIT>) -> array<u32, UNIT + 1u> {
    var words: array<u32, UNIT + 1u>;
    var scales = vec2(0.0);
    for (var block = 0u; block < 2u; block++) {
        var most = vec4(0.0);
        for (var i = 0u; i < BLOCK; i++) {
            most = max(most, abs(fours[block * BLOCK + i]));
        }
        // Below the largest half.
        let greatest = min(max(max(most.x, most.y), max(most.z, most.w)), 8.0e6);
        let scale = greatest / 127.0;
        let inverse = select(127.0 / greatest, 0.0, greatest == 0.0);
        scales[block] = scale;
        for (var i = 0u; i < BLOCK; i++) {
            let q = vec4<i32>(round(clamp(fours[block * BLOCK + i] * inverse, vec4(-127.0), vec4(127.0))));
            let bytes = vec4<u32>(q) & vec4(0xffu);
            words[block * BLOCK + i] = bytes.x | (bytes.y << 8u) | (bytes.z << 16u) | (bytes.w << 24u);
        }
    }
    words[UNIT] = pack2x16float(scales);
    return words;
}

fn store_key(head: u32, quads: u32, unit: u32, fours: array<vec4<f32>, UNIT>) {
    let words = quantised(fours);
    for (var i = 0u; i < min(UNIT, quads - unit * UNIT); i++) {
        k_cache[head + unit * UNIT + i] = words[i];
    }
    k_cache[head + quads + unit] = words[UNIT];
}

fn store_value(head: u32, quads: u32, unit: u32, fours: array<vec4<f32>, UNIT>) {
    let words = quantised(fours);
    for (var i = 0u; i < min(UNIT, quads - unit * UNIT); i++) {
        v_cache[head + unit * UNIT + i] = words[i];
    }
    v_cache[head + quads + unit] = words[UNIT];
}

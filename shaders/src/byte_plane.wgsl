// The main plane of encodings that store a byte for each weight.
import constants::PLANES;

// Where an invocation decodes whole blocks, as on software adapters, it loads them as two vec4s.
@if(software || whole_blocks) @group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks, 2]
@if(!software && !whole_blocks) @group(0) @binding(PLANES) var<storage, read> plane_main: array<vec2<u32>>; // [blocks, 4]

// The words of part `part`, which is half `half` of block `block`: those of its first two groups, then those of the others.
@if(software || whole_blocks)
fn part_words(part: u32, block: u32, half: u32) -> array<vec2<u32>, 2> {
    let a = plane_main[part - half];
    let b = plane_main[part - half + 1u];
    return array(select(a.xy, a.zw, half == 1u), select(b.xy, b.zw, half == 1u));
}

@if(!software && !whole_blocks)
fn part_words(part: u32, block: u32, half: u32) -> array<vec2<u32>, 2> {
    let first = 4u * block + half;
    return array(plane_main[first], plane_main[first + 2u]);
}

// The same words with the sign bits of their bytes inverted: bytes plus 128.
fn biased_words(part: u32, block: u32, half: u32) -> array<vec2<u32>, 2> {
    let w = part_words(part, block, half);
    return array(w[0] ^ vec2(0x80808080u), w[1] ^ vec2(0x80808080u));
}

// The words of `load_packed`.
@if(mma && !int8)
fn packed_words(part: u32, block: u32, half: u32) -> array<vec2<u32>, 2> {
    return biased_words(part, block, half);
}

@if(!mma || int8)
fn packed_words(part: u32, block: u32, half: u32) -> array<vec2<u32>, 2> {
    return part_words(part, block, half);
}

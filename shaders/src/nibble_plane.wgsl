// The main plane of encodings that store four bits of each weight there.
import constants::PLANES;

// Where an invocation multiplies whole blocks of bytes, it loads both parts of a block at once.
@if(int8 && !parts) @group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks]
@if(!int8 || parts) @group(0) @binding(PLANES) var<storage, read> plane_main: array<vec2<u32>>; // [blocks, 2]

// The words of part `part`, which is half `half` of block `block`.
@if(int8 && !parts)
fn part_words(part: u32, block: u32, half: u32) -> vec2<u32> {
    let words = plane_main[block];
    return select(words.xy, words.zw, half == 1u);
}

@if(!int8 || parts)
fn part_words(part: u32, block: u32, half: u32) -> vec2<u32> {
    return plane_main[part];
}

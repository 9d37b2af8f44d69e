// The main plane of encodings that store a byte for each weight.
import constants::PLANES;

// Where an invocation decodes whole blocks, as on software adapters, it loads them as two vec4s.
@if(software || (int8 && !parts)) @group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks, 2]
@if(!software && (!int8 || parts)) @group(0) @binding(PLANES) var<storage, read> plane_main: array<vec2<u32>>; // [blocks, 4]

// The words of part `part`, which is half `half` of block `block`: those of its first two groups, then those of the others.
@if(software || (int8 && !parts))
fn part_words(part: u32, block: u32, half: u32) -> array<vec2<u32>, 2> {
    let a = plane_main[part - half];
    let b = plane_main[part - half + 1u];
    return array(select(a.xy, a.zw, half == 1u), select(b.xy, b.zw, half == 1u));
}

@if(!software && (!int8 || parts))
fn part_words(part: u32, block: u32, half: u32) -> array<vec2<u32>, 2> {
    let first = 4u * block + half;
    return array(plane_main[first], plane_main[first + 2u]);
}

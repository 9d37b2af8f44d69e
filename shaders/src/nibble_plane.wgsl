// The main plane of encodings that store four bits of each weight there.
import constants::PLANES;

// Where an invocation multiplies whole blocks of bytes, it loads both parts of a block at once.
@if(whole_blocks) @group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks]
@if(!whole_blocks) @group(0) @binding(PLANES) var<storage, read> plane_main: array<vec2<u32>>; // [blocks, 2]

// Half `half` of block `block`.
@if(whole_blocks)
fn half_block(block: u32, half: u32) -> vec2<u32> {
    let w = plane_main[block];
    return select(w.xy, w.zw, half == 1u);
}

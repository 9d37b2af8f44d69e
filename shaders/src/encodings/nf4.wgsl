// NF4 of bitsandbytes (Dettmers et al. 2023, "QLoRA"): blocks of 32 nibbles, each an index into a table of 16 values, and
// a scale `d`. A weight is `value * d`.
import package::nibble_plane::plane_main;
import package::unpack::Part;
import package::value_table::part_values;
import constants::PLANES;

@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<f32>; // [blocks]

const ZERO: f32 = 0.0;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 1.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 1u;
const HAS_OFFSETS: bool = false;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 1u;

struct Scales {
    d: f32,
}

fn load_scales(super_block: u32) -> Scales {
    return Scales(plane_scales[super_block]);
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    return Part(part_values(plane_main[part]), vec2(s.d), vec2(0.0));
}

// The scales and minimums of Q4_K and Q5_K: 6 bits each for 8 blocks. `words` has the low nibbles of the scales, those of the
// minimums, then the two high bits of both. Results are multiples of SCALE_UNIT.
@if(mma) import package::mma::cuda_byte_perm;

@if(!mma) const SCALE_UNIT: f32 = 1.0;
@if(mma) const SCALE_UNIT: f32 = 5.9604645e-8; // 2^-24

@if(!mma)
fn scale_and_minimum(words: vec3<u32>, sub: u32) -> vec2<f32> {
    let scale = ((words.x >> (4u * sub)) & 15u) | (((words.z >> (2u * sub)) & 3u) << 4u);
    let minimum = ((words.y >> (4u * sub)) & 15u) | (((words.z >> (16u + 2u * sub)) & 3u) << 4u);
    return vec2<f32>(vec2(scale, minimum));
}

// Unpacks both at once, into the halves of a word. Adjacent blocks share the first two steps.
@if(mma)
fn scale_and_minimum(words: vec3<u32>, sub: u32) -> vec2<f32> {
    let pair = sub / 2u;
    let low = cuda_byte_perm(words.x, words.y, 0x0400u + 0x0101u * pair);
    let high = words.z >> (4u * pair);
    var both = 0u;
    if sub % 2u == 0u {
        both = (low & 0x000f000fu) + 16u * (high & 0x00030003u);
    } else {
        both = ((low >> 4u) & 0x000f000fu) + 4u * (high & 0x000c000cu);
    }
    // The bits of a half for an integer below 1024 are those of the integer times 2^-24.
    return unpack2x16float(both);
}

// What the weight encodings share: types, and bit manipulation.

// The 32 weights of a block: 8 groups of 4.
alias Block = array<vec4<f32>, 8>;

// Half of a block, as stored: the even part of a block has its columns 0..8 and 16..24, the odd part 8..16 and
// 24..32. A weight is `scale * (q - ZERO) + offset` with the encoding's `ZERO`. Kernels for few tokens multiply
// `q` with x, and scale the sums.
struct Part {
    // Four consecutive columns each, in the order above.
    q: array<vec4<f32>, 4>,
    // The scale of the first two groups, and that of the last two.
    scale: vec2<f32>,
    // Their offsets; 0 unless the encoding has `HAS_OFFSETS`.
    offset: vec2<f32>,
}

// The same half of a block with the numbers in words, four bytes each. Kernels for quantised x multiply them as signed integers,
// with the encoding's `PACKED_ZERO` as zero point. With `mma`, for x in floats, the bytes are unsigned integers with the zero point
// `ZERO`, or floats of 8 bits; with `nibbles` the words are those of the weight, with two numbers in each byte, and with `codes`
// too, in the first two words.
struct PackedPart {
    // The words of the first two groups, then those of the last two.
    q: vec4<u32>,
    scale: vec2<f32>,
    offset: vec2<f32>,
}

// A block of floats as halves, two in a word and in the order of their columns. A weight is `half * unit`.
struct HalfFloats {
    halves: array<vec4<u32>, 4>,
    unit: f32,
}

// The same part for products with floats. The bytes must not be negative.
fn unpacked(part: PackedPart) -> Part {
    return Part(numbers(part.q.xy, part.q.zw), part.scale, part.offset);
}

// The four bytes of a word, the lowest first, as floats. `naga-cuda` recognises this expression and that of
// `signed_bytes`.
fn unsigned_bytes(word: u32) -> vec4<f32> {
    return vec4<f32>((vec4(word) >> vec4(0u, 8u, 16u, 24u)) & vec4(0xffu));
}

// The low nibbles of the four bytes of a word, the lowest first.
fn nibbles(word: u32) -> vec4<u32> {
    return (vec4(word) >> vec4(0u, 8u, 16u, 24u)) & vec4(15u);
}

// The four signed bytes of a word, as floats.
fn signed_bytes(word: u32) -> vec4<f32> {
    return vec4<f32>(vec4<i32>(vec4(word) << vec4(24u, 16u, 8u, 0u)) >> vec4(24u));
}

// Whether the device computes with subnormal floats as IEEE 754 states, and as fast as with others. The CUDA backend sets it;
// elsewhere it stays false, since WGSL lets a device flush them to 0.
@if(subnormals) override SUBNORMALS: bool = false;

// The four bytes of a word, the lowest first, as floats. The lower three stay where they are in the word; the highest is
// shifted down. The bits of an integer below 2^24 are those of the float `integer * 2^-149`, so these are the bytes times
// 2^-149, 2^-141, 2^-133 and 2^-149.
@if(subnormals)
fn subnormal_bytes(word: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(vec4(word & 0xffu, word & 0xff00u, word & 0xff0000u, word >> 24u));
}

// The bytes of the words of a part, as floats: those of its first two groups, then those of its last two. With `SUBNORMALS`
// as `subnormal_bytes` returns them, which takes NVIDIA's GPUs one instruction for a byte, where a conversion takes two.
fn numbers(low: vec2<u32>, high: vec2<u32>) -> array<vec4<f32>, 4> {
    @if(subnormals)
    if SUBNORMALS {
        return array(
            subnormal_bytes(low.x), subnormal_bytes(low.y), subnormal_bytes(high.x), subnormal_bytes(high.y),
        );
    }
    return array(
        unsigned_bytes(low.x), unsigned_bytes(low.y), unsigned_bytes(high.x), unsigned_bytes(high.y),
    );
}

// The low nibble of each byte. The words of a block hold weights 0..16 in their low nibbles and 16..32 in
// their high nibbles. With `nibbles` the bytes stay whole: the kernel tells the nibbles apart.
@if(nibbles)
fn low_nibbles(words: vec2<u32>) -> vec2<u32> {
    return words;
}

@if(!nibbles)
fn low_nibbles(words: vec2<u32>) -> vec2<u32> {
    return words & vec2(0x0f0f0f0fu);
}

// The high nibble of each byte.
@if(nibbles)
fn high_nibbles(words: vec2<u32>) -> vec2<u32> {
    return words;
}

@if(!nibbles)
fn high_nibbles(words: vec2<u32>) -> vec2<u32> {
    return (words >> vec2(4u)) & vec2(0x0f0f0f0fu);
}

// The fifth bits of two groups of numbers, at bit 4 of each byte. Bit 0 of each byte of `bits` is that of a
// number of the first group, bit 1 that of one of the second.
fn fifth_bits(bits: u32) -> vec2<u32> {
    return vec2(bits << 4u, bits << 3u) & vec2(0x10101010u);
}

// The half-precision float in the low (`i` even) or high (`i` odd) half of a word.
fn half_at(word: u32, i: u32) -> f32 {
    return unpack2x16float(word >> (16u * (i & 1u))).x;
}

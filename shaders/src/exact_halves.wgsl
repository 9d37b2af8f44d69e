// Blocks of weights as halves, in the order in which tensor cores multiply them. Halves hold the numbers of an encoding exactly;
// of F16 and BF16, numbers that are far smaller than others of their block lose bits (see `load_halves`).
@if(bytes) import package::encoding::load_packed;
@if(!bytes) import package::encoding::load_part;
import package::encoding::{load_scales, BLOCKS_PER_SCALES, ZERO};
@if(f8_e4m3) import package::encoding::{float_halves, FLOAT_UNIT};
@if(codes) import package::value_table::coded_bytes;
@if(any_cols) import package::half_precision::{half_scale, half_unscale, max_magnitude};
@if(bytes && !f8_e4m3 && !fp4) import package::mma::cuda_add_f16x2;
@if(bytes && !nibbles && !f8_e4m3) import package::mma::cuda_byte_perm;
@if(!bytes) import package::split_inputs::packed;
@if(nibbles) import package::split_inputs::HIGH_UNIT;
@if(bytes) import package::unpack::PackedPart;
@if(!bytes) import package::unpack::Part;

// A block of a row: a weight is `scale * number + offset`.
struct HalfBlock {
    // For each group of four columns two words, as `packed` of `split_inputs.wgsl` returns them; then the same of the group 16
    // columns to the right.
    numbers: array<vec4<u32>, 4>,
    // The scale of the first 16 columns, and that of the others.
    scale: vec2<f32>,
    // Their offsets; 0 unless the encoding has `HAS_OFFSETS`.
    offset: vec2<f32>,
}

// The bits of the half 1024 + n end with those of the integer `n` below 1024.
const INTEGER: u32 = 0x64006400u;
const INTEGER_BYTES: u32 = 0x64646464u;
// The halves -1024 - ZERO, and the same for numbers divided by HIGH_UNIT.
@if(bytes) const NEGATIVE_ZEROS: u32 = (INTEGER | 0x80008000u) + u32(ZERO) * 0x00010001u;
@if(nibbles) const HIGH_NEGATIVE_ZEROS: u32 = (INTEGER | 0x80008000u) + u32(ZERO / HIGH_UNIT) * 0x00010001u;

// The numbers in the bytes of a word, less ZERO. With `nibbles` the word has two numbers in each byte.
@if(nibbles)
fn low_halves(word: u32) -> vec2<u32> {
    let numbers = (vec2(word, word >> 8u) & vec2(0x000f000fu)) | vec2(INTEGER);
    return vec2(cuda_add_f16x2(numbers.x, NEGATIVE_ZEROS), cuda_add_f16x2(numbers.y, NEGATIVE_ZEROS));
}

// The same of the high nibbles, divided by HIGH_UNIT.
@if(nibbles)
fn high_halves(word: u32) -> vec2<u32> {
    let numbers = (vec2(word, word >> 8u) & vec2(0x00f000f0u)) | vec2(INTEGER);
    return vec2(cuda_add_f16x2(numbers.x, HIGH_NEGATIVE_ZEROS), cuda_add_f16x2(numbers.y, HIGH_NEGATIVE_ZEROS));
}

// The bytes are the high ones of halves.
@if(fp4)
fn low_halves(word: u32) -> vec2<u32> {
    return vec2(cuda_byte_perm(word, 0u, 0x2404u), word & 0xff00ff00u);
}

@if(bytes && !nibbles && !f8_e4m3 && !fp4)
fn low_halves(word: u32) -> vec2<u32> {
    let even = cuda_byte_perm(word, INTEGER_BYTES, 0x4240u);
    let odd = cuda_byte_perm(word, INTEGER_BYTES, 0x4341u);
    return vec2(cuda_add_f16x2(even, NEGATIVE_ZEROS), cuda_add_f16x2(odd, NEGATIVE_ZEROS));
}

@if(f8_e4m3)
fn low_halves(word: u32) -> vec2<u32> {
    return float_halves(word);
}

@if(bytes && !nibbles)
fn high_halves(word: u32) -> vec2<u32> {
    return low_halves(word);
}

// Group `i` of a part.
@if(bytes && !codes)
fn numbers_of(part: PackedPart, i: u32) -> vec4<u32> {
    return vec4(low_halves(part.q[i]), high_halves(part.q[2u + i]));
}

@if(codes)
fn numbers_of(part: PackedPart, i: u32) -> vec4<u32> {
    let bytes = coded_bytes(part.q[i]);
    return vec4(low_halves(bytes.x), low_halves(bytes.y)).xzyw;
}

// Loads block `at` of the weight, which is block `sub` of those that share its scales.
@if(bytes)
fn load_halves(at: u32, sub: u32) -> HalfBlock {
    let scales = load_scales(at / BLOCKS_PER_SCALES);
    var block: HalfBlock;
    for (var half = 0u; half < 2u; half++) {
        let part = load_packed(2u * at + half, at, sub, half, scales);
        for (var i = 0u; i < 2u; i++) {
            block.numbers[2u * half + i] = numbers_of(part, i);
        }
        @if(!f8_e4m3) block.scale = part.scale;
        @if(f8_e4m3) block.scale = FLOAT_UNIT * part.scale;
        block.offset = part.offset;
    }
    return block;
}

// Floats without scales get one, a power of two for the block: halves of less than 2^-25 of the largest weight lose bits.
@if(!bytes)
fn load_halves(at: u32, sub: u32) -> HalfBlock {
    let scales = load_scales(at / BLOCKS_PER_SCALES);
    let parts = array(load_part(2u * at, sub, 0u, scales), load_part(2u * at + 1u, sub, 1u, scales));
    var factor = 1.0;
    var scale = parts[0].scale;
    @if(any_cols) {
        var largest = 0.0;
        for (var i = 0u; i < 4u; i++) {
            largest = max_magnitude(parts[0].q[i], max_magnitude(parts[1].q[i], largest));
        }
        factor = half_scale(largest);
        scale = vec2(half_unscale(largest));
    }
    var block: HalfBlock;
    for (var half = 0u; half < 2u; half++) {
        for (var i = 0u; i < 2u; i++) {
            let low = packed(factor * (parts[half].q[i] - ZERO));
            let high = packed(factor * (parts[half].q[2u + i] - ZERO));
            block.numbers[2u * half + i] = vec4(low, high);
        }
    }
    block.scale = scale;
    block.offset = parts[0].offset;
    return block;
}

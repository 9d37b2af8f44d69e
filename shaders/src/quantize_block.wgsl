// A block of 32 numbers as signed bytes with one scale.

// Words of four bytes, the first the lowest; the scale's bits, and the sums of 16 bytes each (low, high).
struct QuantizedBlock {
    words: array<u32, 8>,
    factors: vec2<u32>,
}

// 2^-100, below which a block counts as 0, and infinity, as bits.
const LEAST: u32 = 0x0d800000u;
const INFINITE: u32 = 0x7f800000u;
const NAN: u32 = 0x7fc00000u;
// The float next to 1 / 127.
const ONE_127TH: f32 = 0.007874016;

// What all columns of a block are rounded with.
struct Scale {
    // The scale, as bits.
    d: u32,
    // The factor from x to bytes; 0 if all bytes are to be 0.
    inverse: f32,
    is_zero: bool,
}

// Returns the scale of a block whose largest magnitude has these bits: as integers, the bits of magnitudes have their
// order.
fn scale_of(largest: u32) -> Scale {
    if largest < LEAST {
        return Scale(0u, 0.0, true);
    }
    if largest >= INFINITE {
        return Scale(NAN, 0.0, true);
    }
    // The carry of the mantissa goes on into the exponent.
    let rounded = (largest + 0xffffu) & 0xffff0000u;
    let mantissa = 128u + ((rounded >> 16u) & 0x7fu);
    let exponent = (rounded >> 23u) - 127u;
    // Less than 2^24, so that its float is exact.
    let quotient = f32((127u << 24u) / mantissa);
    let inverse = bitcast<f32>(bitcast<u32>(quotient) + ((0xffffffefu - exponent) << 23u));
    if rounded == INFINITE {
        return Scale(INFINITE, inverse, false);
    }
    return Scale(bitcast<u32>(bitcast<f32>(rounded) * ONE_127TH), inverse, false);
}

// Rounds a block, given in fours. The result is that of `quantize` in every bit on every device.
fn quantize_block(numbers: array<vec4<f32>, 8>) -> QuantizedBlock {
    var v = numbers;
    var largest = vec4(0u);
    for (var g = 0u; g < 8u; g++) {
        largest = max(largest, bitcast<vec4<u32>>(v[g]) & vec4(0x7fffffffu));
    }
    let scale = scale_of(max(max(largest.x, largest.y), max(largest.z, largest.w)));
    var words: array<u32, 8>;
    var sums = array(0, 0);
    for (var g = 0u; g < 8u; g++) {
        let q = select(clamp(vec4<i32>(round(v[g] * scale.inverse)), vec4(-127), vec4(127)), vec4(0), vec4(scale.is_zero));
        sums[g / 4u] += (q.x + q.y) + (q.z + q.w);
        words[g] = pack4xI8(q);
    }
    let both = (bitcast<u32>(sums[0]) & 0xffffu) | (bitcast<u32>(sums[1]) << 16u);
    return QuantizedBlock(words, vec2(scale.d, both));
}

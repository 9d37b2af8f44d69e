// Sine and cosine of any finite number with an error of at most 2e-7. WGSL's builtins may have an error
// of 5e-4, and are only specified within [-pi, pi].

// The binary digits of 1 / (2 pi) after the binary point, preceded by 32 zero bits.
const INVERSE_TWO_PI = array<u32, 7>(0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u);

// Returns an angle of at least 2^-8 modulo a whole turn, in units of 2^-32 turns: the first 32 bits
// after the binary point of its product with 1 / (2 pi) (Payne and Hanek 1983). Computed with integers,
// which no compiler rounds or reassociates.
fn turn_fraction(bits: u32) -> u32 {
    let mantissa = (bits & 0x7fffffu) | 0x800000u;
    // The first digit of 1 / (2 pi) whose product is less than a whole turn. At most 136, so that
    // `i + 2` stays within the table.
    let start = (bits >> 23u) - 118u;
    var digits = INVERSE_TWO_PI;
    let i = start >> 5u;
    let shift = start & 31u;
    let high = (digits[i] << shift) | ((digits[i + 1u] >> 1u) >> (31u - shift));
    let low = (digits[i + 1u] << shift) | ((digits[i + 2u] >> 1u) >> (31u - shift));
    // The carry from the product with the lower word, with an error of at most 3 units.
    let upper = mantissa >> 8u;
    let carry = ((upper * (low >> 16u)) >> 8u) + ((upper * (low & 0xffffu)) >> 24u)
        + (((mantissa & 0xffu) * (low >> 8u)) >> 24u);
    return mantissa * high + carry;
}

// sin(|x| + quarters * pi / 2). The polynomials for [-pi / 4, pi / 4] are those of Moshier's Cephes.
fn shifted_sine(x: f32, quarters: u32) -> f32 {
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    if bits >= 0x7f800000u {
        // Infinities and NaN give NaN.
        return bitcast<f32>(bits | 0x400000u);
    }
    var angle = bitcast<f32>(bits);
    var quarter = quarters;
    if bits > 0x3f490fdbu {
        let fraction = turn_fraction(bits);
        let nearest = (fraction + 0x20000000u) >> 30u;
        quarter += nearest;
        angle = f32(bitcast<i32>(fraction - (nearest << 30u))) * 1.4629180792671596e-9;
    }
    let square = angle * angle;
    var y = angle + angle * square * (-0.16666654611 + square * (0.0083321608736 - square * 0.00019515295891));
    if (quarter & 1u) == 1u {
        y = 1.0 - 0.5 * square + square * square * (0.04166664568298827
            + square * (-0.001388731625493765 + square * 0.00002443315711809948));
    }
    return select(y, -y, (quarter & 2u) == 2u);
}

fn sine(x: f32) -> f32 {
    let y = shifted_sine(x, 0u);
    return select(y, -y, x < 0.0);
}

fn cosine(x: f32) -> f32 {
    return shifted_sine(x, 1u);
}

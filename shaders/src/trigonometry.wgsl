// Sine and cosine of any finite number, to 2e-7: the builtins may be off by 5e-4, and only within [-pi, pi].

// 32 zeros, then 1 / (2 pi) after the point, in binary.
const PER_TURN = array<u32, 7>(0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u);

// The part of a turn that is left of an angle of at least 2^-8, in 2^-32 turns: of the product with 1 / (2 pi),
// 32 bits after the point (Payne and Hanek, 1983). Whole numbers, which no compiler rounds or puts in another order.
fn part_of_turn(bits: u32) -> u32 {
    let mantissa = (bits & 0x7fffffu) | 0x800000u;
    // The first bit of 1 / (2 pi) that makes no whole turns.
    let start = (bits >> 23u) - 118u;
    var words = PER_TURN;
    let i = start >> 5u;
    let shift = start & 31u;
    let high = (words[i] << shift) | ((words[i + 1u] >> 1u) >> (31u - shift));
    let low = (words[i + 1u] << shift) | ((words[i + 2u] >> 1u) >> (31u - shift));
    // What the product with the lower word carries, but for 3 units.
    let upper = mantissa >> 8u;
    let carry = ((upper * (low >> 16u)) >> 8u) + ((upper * (low & 0xffffu)) >> 24u)
        + (((mantissa & 0xffu) * (low >> 8u)) >> 24u);
    return mantissa * high + carry;
}

// sin(|x| + quarters * pi / 2). The polynomials are those of Moshier's Cephes, for [-pi / 4, pi / 4].
fn sine(x: f32, quarters: u32) -> f32 {
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    if bits >= 0x7f800000u {
        // Infinities have none.
        return bitcast<f32>(bits | 0x400000u);
    }
    var rest = bitcast<f32>(bits);
    var quarter = quarters;
    if bits > 0x3f490fdbu {
        let part = part_of_turn(bits);
        let nearest = (part + 0x20000000u) >> 30u;
        quarter += nearest;
        rest = f32(bitcast<i32>(part - (nearest << 30u))) * 1.4629180792671596e-9;
    }
    let square = rest * rest;
    var y = rest + rest * square * (-0.16666654611 + square * (0.0083321608736 - square * 0.00019515295891));
    if (quarter & 1u) == 1u {
        y = 1.0 - 0.5 * square + square * square * (0.04166664568298827
            + square * (-0.001388731625493765 + square * 0.00002443315711809948));
    }
    return select(y, -y, (quarter & 2u) == 2u);
}

fn sin_of(x: f32) -> f32 {
    let y = sine(x, 0u);
    return select(y, -y, x < 0.0);
}

fn cos_of(x: f32) -> f32 {
    return sine(x, 1u);
}

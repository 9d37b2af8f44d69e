// Parts of weights in half precision. The weights of a row's block are scaled to magnitudes below 1 by a power of two:
// by one for the block or, for encodings whose numbers have no bound, by one for each part of it.
import package::encoding::{ZERO, HAS_OFFSETS};
@if(!any_cols) import package::encoding::MAX_MAGNITUDE;
import package::half_precision::{exponent_of, max_magnitude, power_of_two};
import package::unpack::Part;

// Scales of a row's block.
@if(any_cols) const BLOCK_SCALES: u32 = 2u;
@if(!any_cols) const BLOCK_SCALES: u32 = 1u;

// Eight columns.
alias Octet = array<vec4<f16>, 2>;

struct HalfPart {
    // The first two groups of four columns, and the last two.
    octets: array<Octet, 2>,
    // The factor that undoes the scaling.
    scale: f32,
}

// A bound of the weights' magnitudes, which is the same for both parts of a block.
@if(!any_cols)
fn bound(part: Part) -> f32 {
    let bounds = MAX_MAGNITUDE * abs(part.scale) + abs(part.offset);
    return max(bounds.x, bounds.y);
}

// The largest magnitude of the weights. These encodings have neither scales nor offsets.
@if(any_cols)
fn bound(part: Part) -> f32 {
    let q = part.q;
    return max_magnitude(q[0], max_magnitude(q[1], max_magnitude(q[2], max_magnitude(q[3], 0.0))));
}

fn halves(a: vec4<f32>, b: vec4<f32>, scale: f32, offset: f32) -> Octet {
    return Octet(vec4<f16>(fma(a, vec4(scale), vec4(offset))), vec4<f16>(fma(b, vec4(scale), vec4(offset))));
}

fn half_part(part: Part) -> HalfPart {
    let e = exponent_of(bound(part));
    let factor = power_of_two(253u - e);
    let scale = factor * part.scale;
    var offset = -ZERO * scale;
    if HAS_OFFSETS {
        offset += factor * part.offset;
    }
    return HalfPart(
        array(
            halves(part.q[0], part.q[1], scale.x, offset.x),
            halves(part.q[2], part.q[3], scale.y, offset.y),
        ),
        power_of_two(e + 1u),
    );
}

// Rotary position embedding in place (Su et al. 2021). An invocation rotates one pair of elements.
import constants::WG;

/// `rope`: rotates the first `rotary_dim` elements of each head of `x` in place (Su et al. 2021,
/// "RoFormer"). Grid: `[rotary_dim / 2 * heads, tokens]`.
///
/// A token whose position is outside `table` is not rotated; the host's twin returns an error.
struct RopeParams {
    /// Tokens in the batch.
    tokens: u32,
    /// Heads to rotate.
    heads: u32,
    /// Elements in a head.
    head_dim: u32,
    /// Elements of a head that rotate: even, at most `head_dim`.
    rotary_dim: u32,
    /// Elements from one token of `x` to the next.
    stride: u32,
    /// Index of the first head within a token.
    offset: u32,
    /// 0 for pairs `(i, i + rotary_dim / 2)` (GPT-NeoX, Hugging Face), 1 for pairs `(2i, 2i + 1)`
    /// (the original order, and GGUF's Llama models).
    interleaved: u32,
}

@group(0) @binding(0) var<uniform> p: RopeParams;
@group(0) @binding(1) var<storage, read_write> x: array<f32>; // [tokens, stride]
@group(0) @binding(2) var<storage, read> index: array<vec2<u32>>; // [tokens], of (sequence, position)
@group(0) @binding(3) var<storage, read> table: array<vec2<f32>>; // [positions, rotary_dim / 2], of (cosine, sine)

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let pairs = p.rotary_dim / 2u;
    let i = (wid.x + wid.z * groups.x) * WG + lid;
    let t = wid.y;
    if i >= pairs * p.heads || t >= p.tokens {
        return;
    }
    let position = index[t].y;
    // Invalid position: the token is not rotated.
    if position >= arrayLength(&table) / pairs {
        return;
    }
    let pair = i % pairs;
    let head = t * p.stride + p.offset + (i / pairs) * p.head_dim;
    let first = head + select(pair, 2u * pair, p.interleaved != 0u);
    let second = head + select(pair + pairs, 2u * pair + 1u, p.interleaved != 0u);
    let cos_sin = table[position * pairs + pair];
    let u = x[first];
    let v = x[second];
    x[first] = u * cos_sin.x - v * cos_sin.y;
    x[second] = v * cos_sin.x + u * cos_sin.y;
}

@group(0) @binding(0) var<storage, read_write> u: array<u32>;
@group(0) @binding(1) var<storage, read_write> i: array<i32>;
@group(0) @binding(2) var<storage, read_write> v: array<vec3<u32>>;
@group(0) @binding(3) var<storage, read_write> f: array<vec4<f32>>;

@compute @workgroup_size(1)
fn main() {
    let a = u[0];
    let b = i[0];
    let c = v[0];
    u[1] = countOneBits(a) + countLeadingZeros(a) + countTrailingZeros(a) + reverseBits(a);
    u[2] = firstLeadingBit(a) + firstTrailingBit(a) + extractBits(a, 3u, u[3]) + insertBits(a, u[1], u[2], 5u);
    i[1] = countOneBits(b) + countLeadingZeros(b) + countTrailingZeros(b) + reverseBits(b);
    i[2] = firstLeadingBit(b) + firstTrailingBit(b) + extractBits(b, 3u, u[3]) + insertBits(b, i[1], u[2], 5u);
    v[1] = countOneBits(c) + firstLeadingBit(c) + extractBits(c, 1u, 2u) + insertBits(c, c, 3u, 4u) + reverseBits(c);
    i[3] = dot4I8Packed(a, u[1]) + i32(dot4U8Packed(a, u[2]));
    let bytes = unpack4xI8(a);
    let unsigned_bytes = unpack4xU8(a);
    u[3] = pack4xI8(bytes + 1) + pack4xU8(unsigned_bytes) + pack4xI8Clamp(3 * bytes) + pack4xU8Clamp(unsigned_bytes * 3u);
    let x = f[0];
    u[4] = pack4x8snorm(x) + pack4x8unorm(x) + pack2x16snorm(x.xy) + pack2x16unorm(x.zw) + pack2x16float(x.yz);
    f[1] = unpack4x8snorm(a) + unpack4x8unorm(a) + vec4(unpack2x16snorm(a), unpack2x16unorm(a)) + unpack2x16float(a).xyxy;
}

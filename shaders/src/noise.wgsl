// Random numbers that depend only on their inputs.

// Returns the first word of pcg4d (Jarzynski and Olano 2020, "Hash Functions for GPU Rendering").
fn hash(input: vec4<u32>) -> u32 {
    var v = input * 1664525u + 1013904223u;
    v.x += v.y * v.w;
    v.y += v.z * v.x;
    v.z += v.x * v.y;
    v.w += v.y * v.z;
    v ^= v >> vec4(16u);
    v.x += v.y * v.w;
    return v.x;
}

// Returns a sample of the standard Gumbel distribution: -log(-log(1 - v)) with v uniform in (0, 1). Near
// v = 0, which gives the largest samples, -log(1 - v) is computed by its series, because a device's log
// is inaccurate around 1.
fn gumbel(seed: u32, position: u32, token: u32) -> f32 {
    let h = hash(vec4(seed, position, token, 0u));
    let v = min((f32(h >> 8u) + 0.5) / 16777216.0, 0.99999994);
    let series = v * (1.0 + v * (0.5 + v * (0.33333334 + v * 0.25)));
    return -log(select(-log(1.0 - v), series, v < 0.03));
}

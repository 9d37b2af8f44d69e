// One step of the heat equation: every place takes from its neighbours what they have more.
fn at(y: u32, x: u32) -> f32 {
    return heat[y * params.heat_1 + x];
}

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let y = id.y;
    let x = id.x;
    if y >= params.heat_0 || x >= params.heat_1 {
        return;
    }
    let here = at(y, x);
    var more = 0.0;
    if y > 0u { more += at(y - 1u, x) - here; }
    if x > 0u { more += at(y, x - 1u) - here; }
    if y + 1u < params.heat_0 { more += at(y + 1u, x) - here; }
    if x + 1u < params.heat_1 { more += at(y, x + 1u) - here; }
    out[y * params.heat_1 + x] = here + params.rate * more;
}

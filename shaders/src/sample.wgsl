// Draws one token for each row of logits. A workgroup does one row. The algorithm, exactly:
//
// 1. z[i] = logit, divided (if positive) or multiplied by the repetition penalty if token i was seen
//    (Keskar et al. 2019); `finite` replaces NaN and -inf by the least float, inf by the greatest.
// 2. Temperature 0 (or below, or NaN): the greatest z wins, the lowest id of equals. Done.
// 3. z[i] = finite(z[i] / temperature); its weight w[i] = exp(max(z[i] - max z, -1000)).
// 4. Top-k: keep z[i] >= the k-th greatest z (so equals of the k-th all stay).
// 5. Top-p (Holtzman et al. 2020): of these keep z[i] >= t for the greatest t among all floats such
//    that the weights kept sum to at least top_p times the sum before.
// 6. Min-p (Nguyen et al. 2024): of these keep w[i] >= min_p (the greatest w is 1).
// 7. Gumbel-max: the greatest z[i] + gumbel(i) wins, the lowest id of equals. The noise is a hash of
//    (seed, position, i), so neither the order nor the number of invocations matters.
//
// Thresholds are found on `ordered_key`s, four bits a pass, from the top: a pass sums, for 15
// thresholds at once, what lies at or above each. No sorting, no atomics, no dependence on order
// but the rounding of the sums.
import package::order::{finite, ordered_key, workgroup_best, Best};
import package::reduce::{workgroup_sum, workgroup_max};
import constants::WG;

struct SampleParams {
    rows: u32,
    vocab: u32,
    batch: u32,
}

struct SampleSettings {
    temperature: f32,
    top_k: u32,
    top_p: f32,
    min_p: f32,
    repetition_penalty: f32,
    seed: u32,
    step: u32,
    sequence: u32,
    position: u32,
}

@group(0) @binding(0) var<uniform> p: SampleParams;
@group(0) @binding(1) var<storage, read> logits: array<f32>; // [rows, vocab]
@group(0) @binding(2) var<storage, read_write> settings: array<SampleSettings>; // [rows]
@group(0) @binding(3) var<storage, read_write> seen: array<u32>; // [batch, ceil(vocab / 32)]
@group(0) @binding(4) var<storage, read_write> tokens: array<u32>; // [rows]
@group(0) @binding(5) var<storage, read_write> index: array<vec2<u32>>; // [rows] (sequence, position)
@group(0) @binding(6) var<storage, read_write> out: array<u32>; // [max_steps, batch]

const TILE = vec2<u32>(1u, 1u);

var<workgroup> shared_settings: SampleSettings;
var<workgroup> sums: array<vec4<f32>, WG>;

fn workgroup_sum4(value: vec4<f32>, lid: u32) -> vec4<f32> {
    workgroupBarrier();
    sums[lid] = value;
    workgroupBarrier();
    for (var half = WG / 2u; half > 0u; half /= 2u) {
        if lid < half {
            sums[lid] += sums[lid + half];
        }
        workgroupBarrier();
    }
    return sums[0];
}

// Step 1.
fn penalised(row: u32, i: u32, s: SampleSettings) -> f32 {
    let l = logits[row * p.vocab + i];
    let word = seen[s.sequence * ((p.vocab + 31u) / 32u) + i / 32u];
    let was_seen = ((word >> (i % 32u)) & 1u) != 0u;
    let less = select(l * s.repetition_penalty, l / s.repetition_penalty, l > 0.0);
    return finite(select(l, less, was_seen));
}

// Step 3.
fn scaled(row: u32, i: u32, s: SampleSettings) -> f32 {
    return finite(penalised(row, i, s) / s.temperature);
}

fn weight_of(z: f32, greatest: f32) -> f32 {
    return exp(max(z - greatest, -1000.0));
}

// The greatest key t such that the keys in [t, ..] and >= floor hold at least `goal`: of weights, or
// (`count`) of tokens. `floor` if none is.
fn threshold(row: u32, s: SampleSettings, greatest: f32, floor_key: u32, count: bool, goal: f32, lid: u32) -> u32 {
    var prefix = 0u;
    for (var shift = 32u; shift > 0u; shift -= 4u) {
        let bit = shift - 4u;
        // Digits 1..=15 below the prefix found so far, four to a vector; digit 0 always holds.
        let d0 = vec4(prefix) + (vec4(1u, 2u, 3u, 4u) << vec4(bit));
        let d1 = vec4(prefix) + (vec4(5u, 6u, 7u, 8u) << vec4(bit));
        let d2 = vec4(prefix) + (vec4(9u, 10u, 11u, 12u) << vec4(bit));
        let d3 = vec4(prefix) + (vec4(13u, 14u, 15u, 15u) << vec4(bit));
        var h0 = vec4(0.0);
        var h1 = vec4(0.0);
        var h2 = vec4(0.0);
        var h3 = vec4(0.0);
        for (var i = lid; i < p.vocab; i += WG) {
            let z = scaled(row, i, s);
            let key = ordered_key(z);
            if key >= floor_key {
                let held = vec4(select(weight_of(z, greatest), 1.0, count));
                h0 += select(vec4(0.0), held, vec4(key) >= d0);
                h1 += select(vec4(0.0), held, vec4(key) >= d1);
                h2 += select(vec4(0.0), held, vec4(key) >= d2);
                h3 += select(vec4(0.0), held, vec4(key) >= d3);
            }
        }
        // How many of the thresholds hold: what they hold falls as they grow.
        h0 = workgroup_sum4(h0, lid);
        h1 = workgroup_sum4(h1, lid);
        h2 = workgroup_sum4(h2, lid);
        h3 = workgroup_sum4(h3, lid);
        let one = vec4(1u);
        let none = vec4(0u);
        let goals = vec4(goal);
        let held = select(none, one, h0 >= goals) + select(none, one, h1 >= goals)
            + select(none, one, h2 >= goals) + select(none, vec4(1u, 1u, 1u, 0u), h3 >= goals);
        prefix += (held.x + held.y + held.z + held.w) << bit;
    }
    return max(prefix, floor_key);
}

// The sum of the weights whose key is at least `floor_key`.
fn mass(row: u32, s: SampleSettings, greatest: f32, floor_key: u32, lid: u32) -> f32 {
    var total = 0.0;
    for (var i = lid; i < p.vocab; i += WG) {
        let z = scaled(row, i, s);
        if ordered_key(z) >= floor_key {
            total += weight_of(z, greatest);
        }
    }
    return workgroup_sum(total, lid);
}

// pcg4d (Jarzynski and Olano 2020).
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

// A draw of the standard Gumbel distribution, -log(-log(1 - v)) with v uniform in (0, 1). Near 0,
// where the large draws are, -log(1 - v) goes by its series: a device's log is inexact around 1.
fn gumbel(seed: u32, position: u32, token: u32) -> f32 {
    let h = hash(vec4(seed, position, token, 0u));
    let v = min((f32(h >> 8u) + 0.5) / 16777216.0, 0.99999994);
    let series = v * (1.0 + v * (0.5 + v * (0.33333334 + v * 0.25)));
    return -log(select(-log(1.0 - v), series, v < 0.03));
}

// Steps 3 to 7.
fn draw(row: u32, s: SampleSettings, lid: u32) -> u32 {
    var greatest = -3.40282347e38;
    for (var i = lid; i < p.vocab; i += WG) {
        greatest = max(greatest, scaled(row, i, s));
    }
    greatest = workgroup_max(greatest, lid);
    var floor_key = 0u;
    if s.top_k != 0u && s.top_k < p.vocab {
        floor_key = threshold(row, s, greatest, floor_key, true, f32(s.top_k), lid);
    }
    if s.top_p < 1.0 {
        let goal = max(s.top_p, 0.0) * mass(row, s, greatest, floor_key, lid);
        // The likeliest always stays.
        floor_key = min(threshold(row, s, greatest, floor_key, false, goal, lid), ordered_key(greatest));
    }
    var best = Best(0u, min(lid, p.vocab - 1u));
    for (var i = lid; i < p.vocab; i += WG) {
        let z = scaled(row, i, s);
        if ordered_key(z) >= floor_key && (weight_of(z, greatest) >= s.min_p || z == greatest) {
            best = better_of(best, ordered_key(z + gumbel(s.seed, s.position, i)), i);
        }
    }
    return workgroup_best(best, lid).id;
}

// Step 2.
fn greedy(row: u32, s: SampleSettings, lid: u32) -> u32 {
    var best = Best(0u, min(lid, p.vocab - 1u));
    for (var i = lid; i < p.vocab; i += WG) {
        best = better_of(best, ordered_key(penalised(row, i, s)), i);
    }
    return workgroup_best(best, lid).id;
}

fn better_of(best: Best, key: u32, i: u32) -> Best {
    return Best(max(best.key, key), select(best.id, i, key > best.key));
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let row = wid.x + wid.y * groups.x;
    if row >= p.rows {
        return;
    }
    if lid == 0u {
        shared_settings = settings[row];
    }
    // Uniform by construction, so that the branches below may hold barriers.
    let s = workgroupUniformLoad(&shared_settings);
    var token = 0u;
    if s.temperature > 0.0 {
        token = draw(row, s, lid);
    } else {
        token = greedy(row, s, lid);
    }
    if lid == 0u {
        tokens[row] = token;
        index[row] = vec2(s.sequence, s.position);
        // Only where no logit is finite, or one is infinite, is the drawn one not: that is reported.
        let drawn = bitcast<u32>(logits[row * p.vocab + token]) & 0x7f800000u;
        out[s.step * p.batch + s.sequence] = select(token, 0xffffffffu, drawn == 0x7f800000u);
        seen[s.sequence * ((p.vocab + 31u) / 32u) + token / 32u] |= 1u << (token % 32u);
        settings[row].step = s.step + 1u;
        settings[row].position = s.position + 1u;
    }
}

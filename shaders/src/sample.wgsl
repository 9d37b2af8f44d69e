// Draws one token for each row of logits. A workgroup does one row. The algorithm, exactly:
//
// 1. z[i] = logit + bias, divided (if positive) or multiplied by the repetition penalty if token i was
//    seen (Keskar et al. 2019), less the frequency penalty for each time that it was drawn and the
//    presence penalty if it was; `finite` replaces NaN and -inf by the least float, inf by the greatest.
// 2. Temperature 0 (or below, or NaN): the greatest z wins, the lowest id of equals. Done.
// 3. z[i] = finite(z[i] / temperature); its weight w[i] = exp(max(z[i] - max z, -1000)).
// 4. Top-k: keep z[i] >= the k-th greatest z (so equals of the k-th all stay). With `plain_top_k` it is
//    found as the greatest that is left, k times over, up to a k of 256; otherwise as the other thresholds.
// 5. Top-p (Holtzman et al. 2020): of these keep z[i] >= t for the greatest t among all floats such
//    that the weights kept sum to at least top_p times the sum before.
// 6. Min-p (Nguyen et al. 2024): of these keep w[i] >= min_p (the greatest w is 1).
// 7. Gumbel-max: the greatest z[i] + gumbel(i) wins, the lowest id of equals. The noise is a hash of
//    (seed, position, i), so neither the order nor the number of invocations matters.
//
// A token that is given is not drawn. Where scores are wanted, they are of the logits as they came.
//
// Thresholds are found on `ordered_key`s, four bits a pass, from the top: a pass sums, for 15
// thresholds at once, what lies at or above each. No sorting, no atomics, no dependence on order
// but the rounding of the sums.
import package::order::{finite, ordered_key, workgroup_best, Best};
import package::reduce::{workgroup_sum, workgroup_max};
import package::noise::gumbel;
import constants::WG;

struct SampleParams {
    rows: u32,
    vocab: u32,
    max_biases: u32,
    score_words: u32,
}

struct Bias {
    token: u32,
    value: f32,
    scratch: f32,
    pad: u32,
}

struct SampleSettings {
    temperature: f32,
    top_k: u32,
    top_p: f32,
    min_p: f32,
    repetition_penalty: f32,
    presence_penalty: f32,
    frequency_penalty: f32,
    seed: u32,
    step: u32,
    sequence: u32,
    position: u32,
    forced: u32,
    biases: u32,
    scored: u32,
}

@group(0) @binding(0) var<uniform> p: SampleParams;
@group(0) @binding(1) var<storage, read_write> logits: array<f32>; // [rows, vocab]
@group(0) @binding(2) var<storage, read_write> settings: array<SampleSettings>; // [rows]
@group(0) @binding(3) var<storage, read_write> counts: array<u32>; // [batch, vocab]
@group(0) @binding(4) var<storage, read_write> tokens: array<u32>; // [rows]
@group(0) @binding(5) var<storage, read_write> index: array<vec2<u32>>; // [rows] (sequence, position)
@group(0) @binding(6) var<storage, read_write> out: array<u32>; // [max_steps, rows]
@group(0) @binding(7) var<storage, read_write> biases: array<Bias>; // [batch, max_biases]
@group(0) @binding(8) var<storage, read_write> scores: array<u32>; // [max_steps, rows, score_words]

const IN_PROMPT = 0x80000000u;
const DRAWN = 0xffffffffu;

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

fn penalises(s: SampleSettings) -> bool {
    return s.repetition_penalty != 1.0 || s.presence_penalty != 0.0 || s.frequency_penalty != 0.0;
}

// Step 1, after `bias_logits`.
fn penalised(row: u32, i: u32, s: SampleSettings) -> f32 {
    var l = logits[row * p.vocab + i];
    if penalises(s) {
        let count = counts[s.sequence * p.vocab + i];
        let less = select(l * s.repetition_penalty, l / s.repetition_penalty, l > 0.0);
        l = select(l, less, count != 0u);
        let drawn = count & ~IN_PROMPT;
        l = select(l, l - s.presence_penalty - f32(drawn) * s.frequency_penalty, drawn != 0u);
    }
    return finite(l);
}

// Adds the biases to the logits, or puts back what was there. Tokens differ, so that none is met twice.
fn bias_logits(row: u32, s: SampleSettings, back: bool, lid: u32) {
    storageBarrier();
    for (var i = lid; i < min(s.biases, p.max_biases); i += WG) {
        let entry = s.sequence * p.max_biases + i;
        let at = row * p.vocab + min(biases[entry].token, p.vocab - 1u);
        if back {
            logits[at] = biases[entry].scratch;
        } else {
            let l = logits[at];
            biases[entry].scratch = l;
            logits[at] = l + biases[entry].value;
        }
    }
    storageBarrier();
}

// Writes the token's log-probability, and the likeliest tokens with theirs, the lowest id of equals first.
fn score(row: u32, s: SampleSettings, token: u32, lid: u32) {
    let first = row * p.vocab;
    var greatest = -3.40282346e38;
    for (var i = lid; i < p.vocab; i += WG) {
        greatest = max(greatest, finite(logits[first + i]));
    }
    greatest = workgroup_max(greatest, lid);
    var total = 0.0;
    for (var i = lid; i < p.vocab; i += WG) {
        total += weight_of(finite(logits[first + i]), greatest);
    }
    let log_total = log(workgroup_sum(total, lid));
    let written = (s.step * p.rows + row) * p.score_words;
    if lid == 0u {
        scores[written] = bitcast<u32>(finite(logits[first + token]) - greatest - log_total);
    }
    var last = Best(0xffffffffu, 0u);
    for (var n = 0u; n < min(s.scored - 1u, (p.score_words - 1u) / 2u); n += 1u) {
        var best = Best(0u, 0xffffffffu);
        for (var i = lid; i < p.vocab; i += WG) {
            let key = ordered_key(logits[first + i]);
            let later = key < last.key || (key == last.key && i > last.id);
            best = better_of(best, select(0u, key, later), i);
        }
        last = workgroup_best(best, lid);
        if lid == 0u {
            let at = written + 1u + 2u * n;
            scores[at] = last.id;
            scores[at + 1u] = bitcast<u32>(
                finite(logits[first + min(last.id, p.vocab - 1u)]) - greatest - log_total
            );
        }
    }
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

// Past this many passes a device might be taken for lost.
@if(plain_top_k) const MOST_PLAIN = 256u;

// The key of the k-th greatest z.
@if(plain_top_k)
fn kth_key(row: u32, s: SampleSettings, lid: u32) -> u32 {
    var last = Best(0xffffffffu, 0u);
    for (var n = 0u; n < s.top_k; n += 1u) {
        var best = Best(0u, 0xffffffffu);
        for (var i = lid; i < p.vocab; i += WG) {
            let key = ordered_key(scaled(row, i, s));
            let later = n == 0u || key < last.key || (key == last.key && i > last.id);
            best = better_of(best, select(0u, key, later), i);
        }
        last = workgroup_best(best, lid);
    }
    return last.key;
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

// Steps 3 to 7.
fn draw(row: u32, s: SampleSettings, lid: u32) -> u32 {
    var greatest = -3.40282346e38;
    for (var i = lid; i < p.vocab; i += WG) {
        greatest = max(greatest, scaled(row, i, s));
    }
    greatest = workgroup_max(greatest, lid);
    var floor_key = 0u;
    if s.top_k != 0u && s.top_k < p.vocab {
        @if(!plain_top_k) floor_key = threshold(row, s, greatest, floor_key, true, f32(s.top_k), lid);
        @if(plain_top_k)
        if s.top_k <= MOST_PLAIN {
            floor_key = kth_key(row, s, lid);
        } else {
            floor_key = threshold(row, s, greatest, floor_key, true, f32(s.top_k), lid);
        }
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
    let drawn = s.forced == DRAWN;
    if drawn && s.biases != 0u {
        bias_logits(row, s, false, lid);
    }
    var token = min(s.forced, p.vocab - 1u);
    if drawn {
        if s.temperature > 0.0 {
            token = draw(row, s, lid);
        } else {
            token = greedy(row, s, lid);
        }
    }
    if drawn && s.biases != 0u {
        bias_logits(row, s, true, lid);
    }
    if s.scored != 0u {
        score(row, s, token, lid);
    }
    if lid == 0u {
        tokens[row] = token;
        index[row] = vec2(s.sequence, s.position);
        // Only where no logit is finite, or one is infinite, is the drawn one not: that is reported.
        let exponent = bitcast<u32>(logits[row * p.vocab + token]) & 0x7f800000u;
        out[s.step * p.rows + row] = select(token, 0xffffffffu, exponent == 0x7f800000u);
        if drawn && penalises(s) {
            counts[s.sequence * p.vocab + token] += 1u;
        }
        settings[row].step = s.step + 1u;
        settings[row].position = s.position + 1u;
    }
}

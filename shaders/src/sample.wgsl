// Samples one token for each row of logits. A workgroup samples one row, with exactly this algorithm:
//
// 1. z[i] = logit + bias. If token i occurs in the sequence, z[i] is divided (if positive) or multiplied
//    by the repetition penalty (Keskar et al. 2019). If it was sampled before, the presence penalty is
//    subtracted once and the frequency penalty once per occurrence. `to_finite` replaces NaN and
//    infinities.
// 2. If the temperature is 0 (or below, or NaN), the token with the largest z is selected, the lowest id
//    among equals, and the remaining steps are skipped.
// 3. z[i] = to_finite(z[i] / temperature); its weight is w[i] = exp(max(z[i] - max z, -1000)).
// 4. Top-k keeps z[i] >= the k-th largest z, including all that equal it. With `plain_top_k` and k up to
//    256, the k-th largest z is found by taking the maximum of the remaining z k times; otherwise it is
//    found like the other thresholds.
// 5. Top-p (Holtzman et al. 2020): of these, keeps z[i] >= t for the largest float t for which the kept
//    weights sum to at least top_p times the sum of all of these.
// 6. Min-p (Nguyen et al. 2024): of these, keeps w[i] >= min_p (the largest w is 1).
// 7. Gumbel-max: the token with the largest z[i] + gumbel(i) is selected, the lowest id among equals.
//    The noise is a hash of (seed, position, i), so neither the order nor the number of invocations
//    affects it.
//
// A forced token is not sampled. Log-probabilities are those of the logits before step 1.
//
// Thresholds are found on `ordered_key`s digit by digit, from the most significant, four bits per pass:
// a pass computes, for 15 thresholds at once, the sum of the weights at or above each. The kernel does
// not sort and uses no atomics; only the rounding of the sums depends on the order of execution.
//
// Users can write settings, so the rows of buffers that settings select are checked.
import package::order::{to_finite, ordered_key, workgroup_best, Candidate};
import package::workgroup_reduce::{workgroup_sum, workgroup_max};
import package::noise::gumbel;
import constants::WG;

/// `sample`: samples one token for each row of logits, writes it and its log-probability, and prepares
/// the inputs of the next step. `tokens` and `index` receive the sampled token and its `(sequence,
/// position)`, the inputs of the next step; in `settings`, `step` and `position` grow by one. Where no
/// logit is finite, or one is infinite, `u32::MAX` is written to `out` instead of the token.
/// Grid: `[rows]`, one workgroup each.
///
/// Out-of-range numbers in the settings of a row have these effects; for those marked with * the host's
/// twin returns an error:
///
/// - `sequence`*: no penalties and biases apply, and the sampled token is not counted;
/// - `step`*: nothing is written to `out` and `logprobs`;
/// - `biases`*: only the first `max_biases` apply;
/// - `forced_token` and [`LogitBias::token`]: they are clamped to the last token of the vocabulary.
struct SampleParams {
    /// Rows of logits.
    rows: u32,
    /// Tokens in the vocabulary.
    vocab: u32,
    /// The number of biases that `biases` can hold for each sequence.
    max_biases: u32,
    /// Words in a row of `logprobs`: the log-probability of the token, then pairs of a token and its
    /// log-probability in descending order, with token `u32::MAX` where there are no more tokens.
    logprob_words: u32,
}

/// A number added to one token's logit.
struct LogitBias {
    /// The id of the token in the vocabulary.
    token: u32,
    /// Added to the token's logit.
    value: f32,
    /// Used by the kernel: holds the original logit while the bias is added.
    scratch: f32,
    /// Padding.
    pad: u32,
}

/// The sampling settings of one row. Applied in this order: biases, repetition penalty, frequency and
/// presence penalty, temperature, top-k, top-p, min-p, then the Gumbel-max draw.
struct SampleSettings {
    /// Divides the logits; 0 selects the token with the largest logit (greedy).
    temperature: f32,
    /// Keeps the k most probable tokens; 0 keeps all.
    top_k: u32,
    /// Keeps the smallest set of tokens with at least this probability (Holtzman et al. 2020); 1 keeps
    /// all.
    top_p: f32,
    /// Keeps tokens whose probability is at least this fraction of the largest one (Nguyen et al. 2024);
    /// 0 keeps all.
    min_p: f32,
    /// Divides positive and multiplies negative logits of tokens in the prompt or sampled before (Keskar
    /// et al. 2019); 1 leaves them unchanged.
    repetition_penalty: f32,
    /// Subtracted from the logits of tokens sampled before, as in OpenAI's API.
    presence_penalty: f32,
    /// Subtracted from the logits of tokens for each time that they were sampled, as in OpenAI's API.
    frequency_penalty: f32,
    /// Seed of the random noise.
    seed: u32,
    /// Row of `out` and `logprobs` to write: the number of earlier steps in this submission.
    step: u32,
    /// Row of the sequence in `counts`, `biases` and the page table.
    sequence: u32,
    /// Position of the sampled token in its sequence.
    position: u32,
    /// A token that is given rather than sampled, or [`NOT_FORCED`].
    forced_token: u32,
    /// Number of biases of the sequence.
    biases: u32,
    /// 0, or 1 plus the number of most probable tokens to write to `logprobs`.
    logprobs: u32,
}

/// The bit of a token's count that is set if the token is in the prompt. The lower bits count how often
/// it was sampled.
const IN_PROMPT: u32 = 0x80000000u;

/// The [`SampleSettings::forced_token`] of a row whose token is to be sampled.
const NOT_FORCED: u32 = 0xffffffffu;

@group(0) @binding(0) var<uniform> p: SampleParams;
@group(0) @binding(1) var<storage, read_write> logits: array<f32>; // [rows, vocab]; biases are added temporarily and removed again
@group(0) @binding(2) var<storage, read_write> settings: array<SampleSettings>; // [rows]
@group(0) @binding(3) var<storage, read_write> counts: array<u32>; // [batch, vocab]: how often each token was sampled, and IN_PROMPT; used with penalties only
@group(0) @binding(4) var<storage, read_write> tokens: array<u32>; // [rows]
@group(0) @binding(5) var<storage, read_write> index: array<vec2<u32>>; // [rows], of (sequence, position)
@group(0) @binding(6) var<storage, read_write> out: array<u32>; // [max_steps, rows]
@group(0) @binding(7) var<storage, read_write> biases: array<LogitBias>; // [batch, max_biases]; of distinct tokens in each row
@group(0) @binding(8) var<storage, read_write> logprobs: array<u32>; // [max_steps, rows, logprob_words]

const TILE = vec2<u32>(1u, 1u);

var<workgroup> shared_settings: SampleSettings;
var<workgroup> partial_sums: array<vec4<f32>, WG>;

fn workgroup_sum_vec4(value: vec4<f32>, lid: u32) -> vec4<f32> {
    workgroupBarrier();
    partial_sums[lid] = value;
    workgroupBarrier();
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        if lid < stride {
            partial_sums[lid] += partial_sums[lid + stride];
        }
        workgroupBarrier();
    }
    return partial_sums[0];
}

fn has_penalties(s: SampleSettings) -> bool {
    return s.repetition_penalty != 1.0 || s.presence_penalty != 0.0 || s.frequency_penalty != 0.0;
}

// A row's settings, with every number that selects memory clamped or disabled if it is invalid.
fn valid_settings(row: u32) -> SampleSettings {
    var s = settings[row];
    // Invalid sequence: without penalties and biases, no data of a sequence is read or written.
    if s.sequence >= arrayLength(&counts) / p.vocab {
        s.repetition_penalty = 1.0;
        s.presence_penalty = 0.0;
        s.frequency_penalty = 0.0;
    }
    let batch = arrayLength(&biases) / max(p.max_biases, 1u);
    s.biases = select(0u, min(s.biases, p.max_biases), s.sequence < batch);
    let steps = arrayLength(&logprobs) / max(p.logprob_words, 1u) / p.rows;
    s.logprobs = select(0u, s.logprobs, s.step < steps && p.logprob_words != 0u);
    return s;
}

// Step 1, after `swap_biases`.
fn penalised(row: u32, i: u32, s: SampleSettings) -> f32 {
    var l = logits[row * p.vocab + i];
    if has_penalties(s) {
        let count = counts[s.sequence * p.vocab + i];
        let repeated = select(l * s.repetition_penalty, l / s.repetition_penalty, l > 0.0);
        l = select(l, repeated, count != 0u);
        let sampled = count & ~IN_PROMPT;
        l = select(l, l - s.presence_penalty - f32(sampled) * s.frequency_penalty, sampled != 0u);
    }
    return to_finite(l);
}

// Adds the biases to the logits or, with `restore`, writes the original logits back. The biased tokens
// are distinct, so no two invocations change the same logit.
fn swap_biases(row: u32, s: SampleSettings, restore: bool, lid: u32) {
    storageBarrier();
    for (var i = lid; i < s.biases; i += WG) {
        let entry = s.sequence * p.max_biases + i;
        let at = row * p.vocab + min(biases[entry].token, p.vocab - 1u);
        if restore {
            logits[at] = biases[entry].scratch;
        } else {
            let l = logits[at];
            biases[entry].scratch = l;
            logits[at] = l + biases[entry].value;
        }
    }
    storageBarrier();
}

// Writes the token's log-probability, then the most probable tokens with theirs, the lowest id first
// among equals.
fn write_logprobs(row: u32, s: SampleSettings, token: u32, lid: u32) {
    let first = row * p.vocab;
    var row_max = -3.40282346e38;
    for (var i = lid; i < p.vocab; i += WG) {
        row_max = max(row_max, to_finite(logits[first + i]));
    }
    row_max = workgroup_max(row_max, lid);
    var total = 0.0;
    for (var i = lid; i < p.vocab; i += WG) {
        total += weight_of(to_finite(logits[first + i]), row_max);
    }
    let log_total = log(workgroup_sum(total, lid));
    let base = (s.step * p.rows + row) * p.logprob_words;
    if lid == 0u {
        logprobs[base] = bitcast<u32>(to_finite(logits[first + token]) - row_max - log_total);
    }
    var last = Candidate(0xffffffffu, 0u);
    for (var n = 0u; n < min(s.logprobs - 1u, (p.logprob_words - 1u) / 2u); n += 1u) {
        var best = Candidate(0u, 0xffffffffu);
        for (var i = lid; i < p.vocab; i += WG) {
            let key = ordered_key(logits[first + i]);
            let is_after = key < last.key || (key == last.key && i > last.id);
            best = better_of(best, select(0u, key, is_after), i);
        }
        last = workgroup_best(best, lid);
        if lid == 0u {
            let at = base + 1u + 2u * n;
            logprobs[at] = last.id;
            logprobs[at + 1u] = bitcast<u32>(
                to_finite(logits[first + min(last.id, p.vocab - 1u)]) - row_max - log_total
            );
        }
    }
}

// Step 3.
fn scaled(row: u32, i: u32, s: SampleSettings) -> f32 {
    return to_finite(penalised(row, i, s) / s.temperature);
}

fn weight_of(z: f32, row_max: f32) -> f32 {
    return exp(max(z - row_max, -1000.0));
}

// Returns the largest key t for which the tokens with keys >= t and >= floor_key have a total weight of
// at least `goal`, or with `by_count` a number of at least `goal`; `floor_key` if there is no such key.
fn threshold(row: u32, s: SampleSettings, row_max: f32, floor_key: u32, by_count: bool, goal: f32, lid: u32) -> u32 {
    var prefix = 0u;
    for (var shift = 32u; shift > 0u; shift -= 4u) {
        let bit = shift - 4u;
        // Each digit 1..=15 after the prefix found so far, four to a vector; digit 0 always satisfies.
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
                let held = vec4(select(weight_of(z, row_max), 1.0, by_count));
                h0 += select(vec4(0.0), held, vec4(key) >= d0);
                h1 += select(vec4(0.0), held, vec4(key) >= d1);
                h2 += select(vec4(0.0), held, vec4(key) >= d2);
                h3 += select(vec4(0.0), held, vec4(key) >= d3);
            }
        }
        // The digit is the number of thresholds that reach the goal: larger thresholds hold less.
        h0 = workgroup_sum_vec4(h0, lid);
        h1 = workgroup_sum_vec4(h1, lid);
        h2 = workgroup_sum_vec4(h2, lid);
        h3 = workgroup_sum_vec4(h3, lid);
        let one = vec4(1u);
        let none = vec4(0u);
        let goals = vec4(goal);
        let reached = select(none, one, h0 >= goals) + select(none, one, h1 >= goals)
            + select(none, one, h2 >= goals) + select(none, vec4(1u, 1u, 1u, 0u), h3 >= goals);
        prefix += (reached.x + reached.y + reached.z + reached.w) << bit;
    }
    return max(prefix, floor_key);
}

// With more passes than this, the driver may reset the device because the kernel runs too long.
@if(plain_top_k) const MAX_PLAIN_TOP_K = 256u;

// The key of the k-th largest z.
@if(plain_top_k)
fn kth_key(row: u32, s: SampleSettings, lid: u32) -> u32 {
    var last = Candidate(0xffffffffu, 0u);
    for (var n = 0u; n < s.top_k; n += 1u) {
        var best = Candidate(0u, 0xffffffffu);
        for (var i = lid; i < p.vocab; i += WG) {
            let key = ordered_key(scaled(row, i, s));
            let is_after = n == 0u || key < last.key || (key == last.key && i > last.id);
            best = better_of(best, select(0u, key, is_after), i);
        }
        last = workgroup_best(best, lid);
    }
    return last.key;
}

// The sum of the weights whose key is at least `floor_key`.
fn kept_weight(row: u32, s: SampleSettings, row_max: f32, floor_key: u32, lid: u32) -> f32 {
    var total = 0.0;
    for (var i = lid; i < p.vocab; i += WG) {
        let z = scaled(row, i, s);
        if ordered_key(z) >= floor_key {
            total += weight_of(z, row_max);
        }
    }
    return workgroup_sum(total, lid);
}

// Steps 3 to 7.
fn random_token(row: u32, s: SampleSettings, lid: u32) -> u32 {
    var row_max = -3.40282346e38;
    for (var i = lid; i < p.vocab; i += WG) {
        row_max = max(row_max, scaled(row, i, s));
    }
    row_max = workgroup_max(row_max, lid);
    var floor_key = 0u;
    if s.top_k != 0u && s.top_k < p.vocab {
        @if(!plain_top_k) floor_key = threshold(row, s, row_max, floor_key, true, f32(s.top_k), lid);
        @if(plain_top_k)
        if s.top_k <= MAX_PLAIN_TOP_K {
            floor_key = kth_key(row, s, lid);
        } else {
            floor_key = threshold(row, s, row_max, floor_key, true, f32(s.top_k), lid);
        }
    }
    if s.top_p < 1.0 {
        let goal = max(s.top_p, 0.0) * kept_weight(row, s, row_max, floor_key, lid);
        // The most probable token is always kept.
        floor_key = min(threshold(row, s, row_max, floor_key, false, goal, lid), ordered_key(row_max));
    }
    var best = Candidate(0u, min(lid, p.vocab - 1u));
    for (var i = lid; i < p.vocab; i += WG) {
        let z = scaled(row, i, s);
        if ordered_key(z) >= floor_key && (weight_of(z, row_max) >= s.min_p || z == row_max) {
            best = better_of(best, ordered_key(z + gumbel(s.seed, s.position, i)), i);
        }
    }
    return workgroup_best(best, lid).id;
}

// Step 2.
fn greedy_token(row: u32, s: SampleSettings, lid: u32) -> u32 {
    var best = Candidate(0u, min(lid, p.vocab - 1u));
    for (var i = lid; i < p.vocab; i += WG) {
        best = better_of(best, ordered_key(penalised(row, i, s)), i);
    }
    return workgroup_best(best, lid).id;
}

fn better_of(best: Candidate, key: u32, i: u32) -> Candidate {
    return Candidate(max(best.key, key), select(best.id, i, key > best.key));
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let row = wid.x + wid.y * groups.x;
    if row >= p.rows || p.vocab == 0u {
        return;
    }
    if lid == 0u {
        shared_settings = valid_settings(row);
    }
    // The load is uniform by definition, so the branches below may contain barriers.
    let s = workgroupUniformLoad(&shared_settings);
    let is_sampled = s.forced_token == NOT_FORCED;
    if is_sampled && s.biases != 0u {
        swap_biases(row, s, false, lid);
    }
    var token = min(s.forced_token, p.vocab - 1u);
    if is_sampled {
        if s.temperature > 0.0 {
            token = random_token(row, s, lid);
        } else {
            token = greedy_token(row, s, lid);
        }
    }
    if is_sampled && s.biases != 0u {
        swap_biases(row, s, true, lid);
    }
    if s.logprobs != 0u {
        write_logprobs(row, s, token, lid);
    }
    if lid == 0u {
        tokens[row] = token;
        index[row] = vec2(s.sequence, s.position);
        // The selected logit is infinite or NaN only if no logit is finite or one is infinite.
        let exponent = bitcast<u32>(logits[row * p.vocab + token]) & 0x7f800000u;
        // Invalid step: nothing is written.
        if s.step < arrayLength(&out) / p.rows {
            out[s.step * p.rows + row] = select(token, 0xffffffffu, exponent == 0x7f800000u);
        }
        if is_sampled && has_penalties(s) {
            counts[s.sequence * p.vocab + token] += 1u;
        }
        settings[row].step = s.step + 1u;
        settings[row].position = s.position + 1u;
    }
}

// The last of the calls that sample: selects a token for each row. A workgroup samples one row. The three calls
// together follow exactly this algorithm:
//
// 1. z[i] = logit + bias. If token i occurs in the sequence, z[i] is divided (if positive) or multiplied
//    by the repetition penalty (Keskar et al. 2019). If it was sampled before, the presence penalty is
//    subtracted once and the frequency penalty once per occurrence. `to_finite` replaces NaN and
//    infinities.
// 2. If the temperature is 0 (or below, or NaN), the token with the largest z is selected, the lowest id
//    among equals, and the remaining steps are skipped.
//    In a row with a mask, z[i] of allowed tokens is at least `LEAST_ALLOWED`, and that of all others the lowest
//    float, here and in the next step.
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
// Thresholds are found on `ordered_key`s byte by byte, from the most significant: a histogram of the next byte
// holds the number or the weight of the remaining tokens with each value of it. Weights are added up as
// integers, so their sums do not depend on the order of execution.
//
// Users can write settings, so the rows of buffers that settings select are checked.
import package::order::{to_finite, ordered_key, workgroup_best, better_candidate, Candidate, MAX_FLOAT};
import package::sample_io::{
    chunk_count, has_penalties, has_top_k, has_top_p, is_random, scratch_row, scratch_values, weight_of,
    SampleParams, SampleSettings, CHUNK_COUNT, CHUNK_DRAWN, CHUNK_DRAWN_TOKEN, CHUNK_LOGIT_MAX, CHUNK_LOGIT_WEIGHT,
    CHUNK_MAX, CHUNK_MAX_TOKEN, CHUNK_WEIGHT, NOT_FORCED, SAMPLE_CHUNK, SAMPLE_CHUNK_WORDS, SAMPLE_MAX_CHUNKS,
};
import package::noise::gumbel;
import package::workgroup_reduce::{workgroup_sum, workgroup_max};
import constants::WG;

@group(0) @binding(0) var<uniform> p: SampleParams;
@group(0) @binding(1) var<storage, read> logits: array<f32>; // [rows, vocab]
@group(0) @binding(2) var<storage, read> scratch: array<u32>; // [rows, words of a row]
@group(0) @binding(3) var<storage, read_write> settings: array<SampleSettings>; // [rows]
@group(0) @binding(4) var<storage, read_write> counts: array<u32>; // [batch, vocab]: how often each token was sampled, and IN_PROMPT; used with penalties only
@group(0) @binding(5) var<storage, read_write> tokens: array<u32>; // [rows]
@group(0) @binding(6) var<storage, read_write> index: array<vec2<u32>>; // [rows], of (sequence, position)
@group(0) @binding(7) var<storage, read_write> out: array<u32>; // [max_steps, rows]
@group(0) @binding(8) var<storage, read_write> logprobs: array<u32>; // [max_steps, rows, logprob_words]

const TILE = vec2<u32>(1u, 1u);

var<workgroup> shared_settings: SampleSettings;
// The number of tokens that remain in the chunks before each chunk and, in the last entry, in all of them.
var<workgroup> starts: array<u32, SAMPLE_MAX_CHUNKS + 1u>;
var<workgroup> run_counts: array<u32, WG>;

// A row's settings, with every number that selects memory clamped or disabled if it is invalid.
fn valid_settings(row: u32) -> SampleSettings {
    var s = settings[row];
    // Invalid sequence: without penalties, no data of a sequence is written.
    if s.sequence >= arrayLength(&counts) / p.vocab {
        s.repetition_penalty = 1.0;
        s.presence_penalty = 0.0;
        s.frequency_penalty = 0.0;
    }
    let steps = arrayLength(&logprobs) / max(p.logprob_words, 1u) / p.rows;
    s.logprobs = select(0u, s.logprobs, s.step < steps && p.logprob_words != 0u);
    return s;
}

// Word `word` of the summary of a chunk.
fn summary(row: u32, chunk: u32, word: u32) -> u32 {
    return scratch[scratch_row(row, p.vocab) + chunk * SAMPLE_CHUNK_WORDS + word];
}

fn summary_float(row: u32, chunk: u32, word: u32) -> f32 {
    return bitcast<f32>(summary(row, chunk, word));
}

// The maximum over the chunks of a number that the summaries hold as a float.
fn max_of_chunks(row: u32, word: u32, lid: u32) -> f32 {
    var own = -MAX_FLOAT;
    for (var i = lid; i < chunk_count(p.vocab); i += WG) {
        own = max(own, summary_float(row, i, word));
    }
    return workgroup_max(own, lid);
}

// The sum of the weights of all tokens relative to `row_max`, from the words of the summaries that hold the
// largest value and the weights relative to it.
fn weight_of_chunks(row: u32, max_word: u32, weight_word: u32, row_max: f32, lid: u32) -> f32 {
    var own = 0.0;
    for (var i = lid; i < chunk_count(p.vocab); i += WG) {
        own += summary_float(row, i, weight_word) * weight_of(summary_float(row, i, max_word), row_max);
    }
    return workgroup_sum(own, lid);
}

// Writes the token's log-probability, then the most probable tokens with theirs, the lowest id first
// among equals.
fn write_logprobs(row: u32, s: SampleSettings, token: u32, lid: u32) {
    let first = row * p.vocab;
    let row_max = max_of_chunks(row, CHUNK_LOGIT_MAX, lid);
    let log_total = log(weight_of_chunks(row, CHUNK_LOGIT_MAX, CHUNK_LOGIT_WEIGHT, row_max, lid));
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

fn better_of(best: Candidate, key: u32, i: u32) -> Candidate {
    return Candidate(max(best.key, key), select(best.id, i, key > best.key));
}

// Fills `starts` and returns the number of remaining tokens.
fn remaining_tokens(row: u32, lid: u32) -> u32 {
    let chunks = chunk_count(p.vocab);
    // The invocations' runs of chunks, then the runs before each.
    let run = (chunks + WG - 1u) / WG;
    var own = 0u;
    for (var i = lid * run; i < min(lid * run + run, chunks); i++) {
        own += min(summary(row, i, CHUNK_COUNT), SAMPLE_CHUNK);
    }
    run_counts[lid] = own;
    workgroupBarrier();
    var start = 0u;
    for (var i = 0u; i < lid; i++) {
        start += run_counts[i];
    }
    for (var i = lid * run; i < min(lid * run + run, chunks); i++) {
        starts[i] = start;
        start += min(summary(row, i, CHUNK_COUNT), SAMPLE_CHUNK);
    }
    if lid == WG - 1u {
        starts[chunks] = start;
    }
    workgroupBarrier();
    return starts[chunks];
}

// The place in `scratch` of the value of the `n`-th remaining token; its id is `vocab` words further.
fn place_of(row: u32, n: u32) -> u32 {
    // The last chunk that starts at or before `n`.
    var chunk = 0u;
    var width = SAMPLE_MAX_CHUNKS;
    while width > 0u {
        let next = chunk + width;
        if next < chunk_count(p.vocab) {
            chunk = select(chunk, next, starts[next] <= n);
        }
        width /= 2u;
    }
    let at = min(chunk * SAMPLE_CHUNK + n - starts[chunk], p.vocab - 1u);
    return scratch_values(row, p.vocab) + at;
}

fn value_at(place: u32) -> f32 {
    return bitcast<f32>(scratch[place]);
}

// Two histograms of 256 numbers, used in turn. A number is the sum of three words: a + b / 2^13 + c / 2^26.
const BINS: u32 = 256u;
const BIN_GROUP: u32 = 16u;
const DIGIT: f32 = 8192.0;

var<workgroup> bins: array<array<atomic<u32>, 3>, 2u * BINS>;
var<workgroup> bin_groups: array<f32, BINS / BIN_GROUP>;
var<workgroup> found_byte: u32;
var<workgroup> found_above: f32;

fn clear_bins(histogram: u32, lid: u32) {
    for (var i = lid; i < BINS; i += WG) {
        for (var word = 0u; word < 3u; word++) {
            atomicStore(&bins[histogram * BINS + i][word], 0u);
        }
    }
}

// Adds a number from 0 to 1 to a bin.
fn add_to_bin(bin: u32, number: f32) {
    let a = floor(number);
    let b = floor((number - a) * DIGIT);
    let c = round(((number - a) * DIGIT - b) * DIGIT);
    atomicAdd(&bins[bin][0], u32(a));
    atomicAdd(&bins[bin][1], u32(b));
    atomicAdd(&bins[bin][2], u32(c));
}

fn bin_value(bin: u32) -> f32 {
    let a = f32(atomicLoad(&bins[bin][0]));
    let b = f32(atomicLoad(&bins[bin][1]));
    let c = f32(atomicLoad(&bins[bin][2]));
    return a + (b + c / DIGIT) / DIGIT;
}

// Returns the largest key t for which the remaining tokens with keys >= t and >= floor_key have a total weight
// of at least `goal`, or with `by_count` a number of at least `goal`; `floor_key` if there is no such key.
fn threshold(row: u32, remaining: u32, row_max: f32, floor_key: u32, by_count: bool, goal: f32, lid: u32) -> u32 {
    var prefix = 0u;
    var above = 0.0;
    clear_bins(0u, lid);
    workgroupBarrier();
    for (var step = 0u; step < 4u; step++) {
        let shift = 24u - 8u * step;
        let first_bin = (step % 2u) * BINS;
        for (var n = lid; n < remaining; n += WG) {
            let z = value_at(place_of(row, n));
            let key = ordered_key(z);
            // The bytes found so far; none at first, when the shift would be by 32.
            let matches = step == 0u || (key >> min(shift + 8u, 31u)) == (prefix >> min(shift + 8u, 31u));
            if key >= floor_key && matches {
                add_to_bin(first_bin + ((key >> shift) & 255u), select(weight_of(z, row_max), 1.0, by_count));
            }
        }
        clear_bins(1u - step % 2u, lid);
        workgroupBarrier();
        for (var group = lid; group < BINS / BIN_GROUP; group += WG) {
            var sum = 0.0;
            for (var i = 0u; i < BIN_GROUP; i++) {
                sum += bin_value(first_bin + group * BIN_GROUP + i);
            }
            bin_groups[group] = sum;
        }
        workgroupBarrier();
        for (var bin = lid; bin < BINS; bin += WG) {
            var higher = above;
            for (var group = BINS / BIN_GROUP - 1u; group > bin / BIN_GROUP; group--) {
                higher += bin_groups[group];
            }
            for (var i = (bin / BIN_GROUP + 1u) * BIN_GROUP - 1u; i > bin; i--) {
                higher += bin_value(first_bin + i);
            }
            // Exactly one bin reaches the goal; the lowest one stands for none.
            if higher < goal && (bin == 0u || higher + bin_value(first_bin + bin) >= goal) {
                found_byte = bin;
                found_above = higher;
            }
        }
        workgroupBarrier();
        prefix |= found_byte << shift;
        above = found_above;
    }
    return max(prefix, floor_key);
}

// With more passes than this, the driver may reset the device because the kernel runs too long.
@if(plain_top_k) const MAX_PLAIN_TOP_K = 256u;

// The key of the k-th largest z.
@if(plain_top_k)
fn kth_key(row: u32, s: SampleSettings, remaining: u32, lid: u32) -> u32 {
    var last = Candidate(0xffffffffu, 0u);
    for (var n = 0u; n < s.top_k; n += 1u) {
        var best = Candidate(0u, 0xffffffffu);
        for (var i = lid; i < remaining; i += WG) {
            let key = ordered_key(value_at(place_of(row, i)));
            let is_after = n == 0u || key < last.key || (key == last.key && i > last.id);
            best = better_of(best, select(0u, key, is_after), i);
        }
        last = workgroup_best(best, lid);
    }
    return last.key;
}

// The sum of the weights whose key is at least `floor_key`.
fn kept_weight(row: u32, remaining: u32, row_max: f32, floor_key: u32, lid: u32) -> f32 {
    var total = 0.0;
    for (var n = lid; n < remaining; n += WG) {
        let z = value_at(place_of(row, n));
        if ordered_key(z) >= floor_key {
            total += weight_of(z, row_max);
        }
    }
    return workgroup_sum(total, lid);
}

// Steps 4 to 7 for a row with top-k or top-p.
fn kept_token(row: u32, s: SampleSettings, lid: u32) -> u32 {
    let row_max = max_of_chunks(row, CHUNK_MAX, lid);
    let remaining = remaining_tokens(row, lid);
    var floor_key = 0u;
    if has_top_k(s, p.vocab) {
        @if(!plain_top_k) floor_key = threshold(row, remaining, row_max, floor_key, true, f32(s.top_k), lid);
        @if(plain_top_k)
        if s.top_k <= MAX_PLAIN_TOP_K {
            floor_key = kth_key(row, s, remaining, lid);
        } else {
            floor_key = threshold(row, remaining, row_max, floor_key, true, f32(s.top_k), lid);
        }
    }
    if has_top_p(s) {
        var all = 0.0;
        if has_top_k(s, p.vocab) {
            all = kept_weight(row, remaining, row_max, floor_key, lid);
        } else {
            all = weight_of_chunks(row, CHUNK_MAX, CHUNK_WEIGHT, row_max, lid);
        }
        // The most probable token is always kept, also with a top-p of 0.
        let goal = max(s.top_p * all, 1e-30);
        floor_key = min(
            threshold(row, remaining, row_max, floor_key, false, goal, lid), ordered_key(row_max)
        );
    }
    var best = Candidate(0u, 0u);
    for (var n = lid; n < remaining; n += WG) {
        let place = place_of(row, n);
        let z = value_at(place);
        if ordered_key(z) >= floor_key && (weight_of(z, row_max) >= s.min_p || z == row_max) {
            let token = min(scratch[place + p.vocab], p.vocab - 1u);
            let drawn = Candidate(ordered_key(z + gumbel(s.seed, s.position, token)), token);
            best = better_candidate(best, drawn);
        }
    }
    return workgroup_best(best, lid).id;
}

// The best of the chunks' candidates, whose number is a value or, with `drawn`, already a key.
fn best_of_chunks(row: u32, drawn: bool, lid: u32) -> u32 {
    var best = Candidate(0u, 0u);
    for (var i = lid; i < chunk_count(p.vocab); i += WG) {
        if drawn {
            let found = Candidate(summary(row, i, CHUNK_DRAWN), summary(row, i, CHUNK_DRAWN_TOKEN));
            best = better_candidate(best, found);
        } else {
            let key = ordered_key(summary_float(row, i, CHUNK_MAX));
            best = better_candidate(best, Candidate(key, summary(row, i, CHUNK_MAX_TOKEN)));
        }
    }
    return min(workgroup_best(best, lid).id, p.vocab - 1u);
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
    var token = min(s.forced_token, p.vocab - 1u);
    if is_random(s) && (has_top_k(s, p.vocab) || has_top_p(s)) {
        token = kept_token(row, s, lid);
    } else if is_sampled {
        token = best_of_chunks(row, is_random(s), lid);
    }
    if s.logprobs != 0u {
        write_logprobs(row, s, token, lid);
    }
    if lid == 0u {
        tokens[row] = token;
        index[row] = vec2(s.sequence, s.position);
        // The selected logit is infinite or NaN only if no logit is finite or one is infinite.
        let exponent = bitcast<u32>(logits[row * p.vocab + token]) & 0x7f800000u;
        // The best token is in a chunk without an allowed one only if no token is allowed.
        let is_forbidden = is_sampled && s.masked != 0u
            && summary_float(row, token / SAMPLE_CHUNK, CHUNK_MAX) <= -MAX_FLOAT;
        // Invalid step: nothing is written.
        if s.step < arrayLength(&out) / p.rows {
            out[s.step * p.rows + row] = select(token, 0xffffffffu, exponent == 0x7f800000u || is_forbidden);
        }
        if is_sampled && has_penalties(s) {
            counts[s.sequence * p.vocab + token] += 1u;
        }
        settings[row].step = s.step + 1u;
        settings[row].position = s.position + 1u;
    }
}

// The first of the calls that sample: the value of each token, and a summary of each chunk of tokens. A
// workgroup computes one chunk of one row, whose values it holds in workgroup memory.
import package::order::{to_finite, ordered_key, workgroup_best, Candidate, MAX_FLOAT};
import package::sample_io::{
    chunk_count, has_penalties, is_random, scratch_row, scratch_values, weight_of, LogitBias, SampleParams,
    SampleSettings, CHUNK_COUNT, CHUNK_LOGIT_MAX, CHUNK_LOGIT_WEIGHT, CHUNK_MAX, CHUNK_MAX_TOKEN, CHUNK_WEIGHT,
    IN_PROMPT, LEAST_ALLOWED, NOT_FORCED, SAMPLE_CHUNK, SAMPLE_CHUNK_WORDS,
};
import package::workgroup_reduce::{workgroup_max, workgroup_sum};
import constants::WG;

@group(0) @binding(0) var<uniform> p: SampleParams;
@group(0) @binding(1) var<storage, read> logits: array<f32>; // [rows, vocab]
@group(0) @binding(2) var<storage, read> settings: array<SampleSettings>; // [rows]
@group(0) @binding(3) var<storage, read> counts: array<u32>; // [batch, vocab]: how often each token was sampled, and IN_PROMPT; used with penalties only
@group(0) @binding(4) var<storage, read> biases: array<LogitBias>; // [batch, max_biases]; of distinct tokens in each row
@group(0) @binding(5) var<storage, read> masks: array<u32>; // [batch, words of a mask]: bit i % 32 of word i / 32 allows token i; used with `masked` only
@group(0) @binding(6) var<storage, read_write> scratch: array<u32>; // [rows, words of a row]

const TILE = vec2<u32>(SAMPLE_CHUNK, 1u);

var<workgroup> shared_settings: SampleSettings;
var<workgroup> values: array<f32, SAMPLE_CHUNK>;

// The number of words of a mask.
fn mask_words() -> u32 {
    return (p.vocab + 31u) / 32u;
}

// A row's settings; penalties, biases and masks that an invalid number would take from elsewhere are switched off.
fn valid_settings(row: u32) -> SampleSettings {
    var s = settings[row];
    if s.sequence >= arrayLength(&counts) / p.vocab {
        s.repetition_penalty = 1.0;
        s.presence_penalty = 0.0;
        s.frequency_penalty = 0.0;
    }
    let batch = arrayLength(&biases) / max(p.max_biases, 1u);
    s.biases = select(0u, min(s.biases, p.max_biases), s.sequence < batch);
    s.masked = select(0u, s.masked, s.sequence < arrayLength(&masks) / mask_words());
    return s;
}

// The value of token `i` whose logit, with its bias, is `logit`.
fn value_of(logit: f32, i: u32, s: SampleSettings) -> f32 {
    var l = logit;
    if has_penalties(s) {
        let count = counts[s.sequence * p.vocab + i];
        let repeated = select(l * s.repetition_penalty, l / s.repetition_penalty, l > 0.0);
        l = select(l, repeated, count != 0u);
        let sampled = count & ~IN_PROMPT;
        l = select(l, l - s.presence_penalty - f32(sampled) * s.frequency_penalty, sampled != 0u);
    }
    l = to_finite(l);
    if s.temperature > 0.0 {
        l = to_finite(l / s.temperature);
    }
    return l;
}

// The value of token `i` after the mask: forbidden tokens are below all allowed ones.
fn masked_value(z: f32, i: u32, s: SampleSettings) -> f32 {
    let word = masks[s.sequence * mask_words() + i / 32u];
    return select(-MAX_FLOAT, max(z, LEAST_ALLOWED), ((word >> (i % 32u)) & 1u) != 0u);
}

// Adds the biases of tokens of this chunk, `count` tokens from `first` on, to their logits. The biased tokens
// are distinct, so no two invocations change the same one.
fn add_biases(s: SampleSettings, first: u32, count: u32, lid: u32) {
    workgroupBarrier();
    for (var i = lid; i < s.biases; i += WG) {
        let bias = biases[s.sequence * p.max_biases + i];
        let at = min(bias.token, p.vocab - 1u) - first;
        // A token before the chunk wraps around.
        if at < count {
            values[at] += bias.value;
        }
    }
    workgroupBarrier();
}

// Writes the largest logit of the chunk, and the sum of the weights relative to it.
fn summarise_logits(row: u32, words: u32, first: u32, count: u32, lid: u32) {
    var own_max = -MAX_FLOAT;
    for (var i = lid; i < count; i += WG) {
        own_max = max(own_max, to_finite(logits[row * p.vocab + first + i]));
    }
    let chunk_max = workgroup_max(own_max, lid);
    var own_sum = 0.0;
    for (var i = lid; i < count; i += WG) {
        own_sum += weight_of(to_finite(logits[row * p.vocab + first + i]), chunk_max);
    }
    let sum = workgroup_sum(own_sum, lid);
    if lid == 0u {
        scratch[words + CHUNK_LOGIT_MAX] = bitcast<u32>(chunk_max);
        scratch[words + CHUNK_LOGIT_WEIGHT] = bitcast<u32>(sum);
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let chunk = wid.x + wid.z * groups.x;
    let row = wid.y;
    if row >= p.rows || chunk >= chunk_count(p.vocab) {
        return;
    }
    if lid == 0u {
        shared_settings = valid_settings(row);
    }
    // The load is uniform by definition, so the branches below may contain barriers.
    let s = workgroupUniformLoad(&shared_settings);
    let words = scratch_row(row, p.vocab) + chunk * SAMPLE_CHUNK_WORDS;
    let first = chunk * SAMPLE_CHUNK;
    let count = min(SAMPLE_CHUNK, p.vocab - first);
    if s.logprobs != 0u {
        summarise_logits(row, words, first, count, lid);
    }
    if s.forced_token != NOT_FORCED {
        return;
    }
    for (var i = lid; i < count; i += WG) {
        values[i] = logits[row * p.vocab + first + i];
    }
    if s.biases != 0u {
        add_biases(s, first, count, lid);
    }
    var best = Candidate(0u, first);
    for (var i = lid; i < count; i += WG) {
        var z = value_of(values[i], first + i, s);
        if s.masked != 0u {
            z = masked_value(z, first + i, s);
        }
        values[i] = z;
        let key = ordered_key(z);
        if key > best.key {
            best = Candidate(key, first + i);
        }
    }
    best = workgroup_best(best, lid);
    // The barriers of the reduction order the values before this load.
    let chunk_max = values[best.id - first];
    if is_random(s) {
        let out = scratch_values(row, p.vocab) + first;
        var own_sum = 0.0;
        for (var i = lid; i < count; i += WG) {
            scratch[out + i] = bitcast<u32>(values[i]);
            own_sum += weight_of(values[i], chunk_max);
        }
        let sum = workgroup_sum(own_sum, lid);
        if lid == 0u {
            scratch[words + CHUNK_WEIGHT] = bitcast<u32>(sum);
        }
    }
    if lid == 0u {
        scratch[words + CHUNK_MAX] = bitcast<u32>(chunk_max);
        scratch[words + CHUNK_MAX_TOKEN] = best.id;
        scratch[words + CHUNK_COUNT] = 0u;
    }
}

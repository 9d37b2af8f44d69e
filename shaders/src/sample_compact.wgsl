// The second of the calls that sample: drops tokens that cannot be drawn. A workgroup handles one chunk of one
// row; it first reduces the summaries of all chunks of the row.
//
// What it drops lies below a bound on the values that is easy to find and excludes no token that the exact
// thresholds of the last call keep:
//
// - top-k alone or with top-p: the k-th largest of the chunks' largest values. It is at most the k-th largest of
//   all values. With fewer than k chunks nothing is dropped.
// - top-p alone: the tokens whose weight is less than (1 - top_p) / 2 of the mean weight together have less than
//   (1 - top_p) / 2 of all weight, so the kept tokens lie above them.
// - min-p, unless both others apply: a little less than its own threshold.
import package::noise::gumbel;
import package::order::{ordered_key, workgroup_best, Candidate, MAX_FLOAT};
import package::sample_io::{
    chunk_count, has_top_k, has_top_p, is_random, scratch_row, scratch_values, weight_of, SampleParams,
    SampleSettings, CHUNK_COUNT, CHUNK_DRAWN, CHUNK_DRAWN_TOKEN, CHUNK_MAX, CHUNK_WEIGHT, SAMPLE_CHUNK,
    SAMPLE_CHUNK_WORDS, SAMPLE_MAX_CHUNKS,
};
import package::workgroup_reduce::{workgroup_max, workgroup_sum};
import constants::WG;

@group(0) @binding(0) var<uniform> p: SampleParams;
@group(0) @binding(1) var<storage, read> settings: array<SampleSettings>; // [rows]
@group(0) @binding(2) var<storage, read_write> scratch: array<u32>; // [rows, words of a row]

const TILE = vec2<u32>(SAMPLE_CHUNK, 1u);

// Consecutive tokens of one invocation.
const RUN: u32 = SAMPLE_CHUNK / WG;

var<workgroup> shared_settings: SampleSettings;
var<workgroup> keys: array<u32, SAMPLE_MAX_CHUNKS>;
var<workgroup> kth_key: u32;
var<workgroup> run_counts: array<u32, WG>;

// The largest of a chunk's values.
fn chunk_max(words: u32, chunk: u32) -> f32 {
    return bitcast<f32>(scratch[words + chunk * SAMPLE_CHUNK_WORDS + CHUNK_MAX]);
}

// The key of the k-th largest of the chunks' largest values, 0 if there are fewer: the one with k - 1 others
// before it in descending order.
fn kth_chunk_key(k: u32, words: u32, lid: u32) -> u32 {
    let chunks = chunk_count(p.vocab);
    for (var i = lid; i < chunks; i += WG) {
        keys[i] = ordered_key(chunk_max(words, i));
    }
    if lid == 0u {
        kth_key = 0u;
    }
    workgroupBarrier();
    for (var i = lid; i < chunks; i += WG) {
        let own = keys[i];
        var before = 0u;
        for (var j = 0u; j < chunks; j++) {
            before += select(0u, 1u, keys[j] > own || (keys[j] == own && j < i));
        }
        if before == k - 1u {
            kth_key = own;
        }
    }
    workgroupBarrier();
    return kth_key;
}

// The key below which a row's values are dropped.
fn lowest_key(s: SampleSettings, words: u32, row_max: f32, lid: u32) -> u32 {
    var lowest = 0u;
    if has_top_k(s, p.vocab) {
        lowest = kth_chunk_key(s.top_k, words, lid);
    } else if has_top_p(s) {
        var own = 0.0;
        for (var i = lid; i < chunk_count(p.vocab); i += WG) {
            let at = words + i * SAMPLE_CHUNK_WORDS;
            own += bitcast<f32>(scratch[at + CHUNK_WEIGHT]) * weight_of(chunk_max(words, i), row_max);
        }
        let mean = workgroup_sum(own, lid) / f32(p.vocab);
        lowest = ordered_key(row_max + log(0.5 * (1.0 - max(s.top_p, 0.0)) * mean));
    }
    if s.min_p > 0.0 && !(has_top_k(s, p.vocab) && has_top_p(s)) {
        lowest = max(lowest, ordered_key(row_max + log(min(s.min_p, 1.0)) - 0.01));
    }
    return min(lowest, ordered_key(row_max));
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
        shared_settings = settings[row];
    }
    // The load is uniform by definition, so the branches below may contain barriers.
    let s = workgroupUniformLoad(&shared_settings);
    if !is_random(s) {
        return;
    }
    let words = scratch_row(row, p.vocab);
    var own_max = -MAX_FLOAT;
    for (var i = lid; i < chunk_count(p.vocab); i += WG) {
        own_max = max(own_max, chunk_max(words, i));
    }
    let row_max = workgroup_max(own_max, lid);
    let first = chunk * SAMPLE_CHUNK;
    let count = min(SAMPLE_CHUNK, p.vocab - first);
    let values = scratch_values(row, p.vocab) + first;
    let summary = words + chunk * SAMPLE_CHUNK_WORDS;
    if !has_top_k(s, p.vocab) && !has_top_p(s) {
        var best = Candidate(0u, first);
        for (var i = lid; i < count; i += WG) {
            let z = bitcast<f32>(scratch[values + i]);
            let key = ordered_key(z + gumbel(s.seed, s.position, first + i));
            if key > best.key && (weight_of(z, row_max) >= s.min_p || z == row_max) {
                best = Candidate(key, first + i);
            }
        }
        best = workgroup_best(best, lid);
        if lid == 0u {
            scratch[summary + CHUNK_DRAWN] = best.key;
            scratch[summary + CHUNK_DRAWN_TOKEN] = best.id;
        }
        return;
    }
    let lowest = lowest_key(s, words, row_max, lid);
    // Values are moved towards the beginning of the chunk: all are loaded before the first is stored.
    var run: array<f32, RUN>;
    var own_count = 0u;
    for (var i = 0u; i < RUN; i++) {
        let at = lid * RUN + i;
        run[i] = bitcast<f32>(scratch[values + min(at, count - 1u)]);
        own_count += select(0u, 1u, at < count && ordered_key(run[i]) >= lowest);
    }
    run_counts[lid] = own_count;
    storageBarrier();
    workgroupBarrier();
    var to = 0u;
    for (var i = 0u; i < lid; i++) {
        to += run_counts[i];
    }
    if lid == WG - 1u {
        scratch[summary + CHUNK_COUNT] = to + own_count;
    }
    for (var i = 0u; i < RUN; i++) {
        let at = lid * RUN + i;
        if at < count && ordered_key(run[i]) >= lowest {
            scratch[values + to] = bitcast<u32>(run[i]);
            scratch[values + p.vocab + to] = first + at;
            to += 1u;
        }
    }
}

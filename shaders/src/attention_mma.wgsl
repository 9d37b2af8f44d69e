// Attention of many tokens on NVIDIA's tensor cores, as accurate as in f32: tiles as in attention_tiled.wgsl, whose scores
// and weighted sums are products of matrices of halves (FlashAttention-2, Dao 2023). A cache in half precision holds keys
// and values as tensor cores take them. Queries, scaled by a power of two for each row, and weights are split into two
// halves each, whose sum differs from them by at most one unit in the last place of f32, or 2^-38 of the row's largest
// weight, and both halves are multiplied.
//
// Tensor cores truncate sums to about as many bits as f32 has (M. Fasi et al., "Numerical behavior of NVIDIA tensor cores",
// 2021). So that errors do not add up over a long sequence, the sums of a tile are computed apart, and added as f32.
//
// Of a cache in q8_0 the bytes of keys are multiplied, and the sums of each block with its scale. Values are split as well, into
// two halves whose sum they are.
//
// A subgroup computes 16 rows, of which a lane has rows `g` and `g + 8` with `g = lane / 4`. Scores leave the matrix units
// in the registers in which weights enter them. In scores the order of elements, and in sums that of columns, is chosen so
// that a lane reads 16 bytes at a time of keys and of values.
//
// Of heads of more than 128 elements the queries and sums of 16 rows do not fit a subgroup's registers. With `shared_rows`,
// ROW_SUBGROUPS subgroups compute the same rows, each for its share of elements and of columns, and add their scores.
import package::attention_halves::{next_reference, LN_2, LOG2_E, SECOND_UNIT};
import package::attention_io::{cache_pages, index, load_query, run_of_tokens, visible_kv_row, visible_range};
import package::attention_params::{p, capped, store_out, with_sink, LOWEST, MASKED};
import package::cache::{head_offset, key_load, value_load, without_rest, Load};
@if(q8_0) import package::cache::{byte_halves, halves_of, scales_of};
import package::half_precision::{half_scale, half_unscale, max_magnitude, two_halves};
import package::mma::{cuda_byte_perm, cuda_mma_m16n8k16};
import package::quad::{quad_max, quad_sum};
import package::query::MAX_VALUE_DIM;
@if(q8_0) import package::unpack::half_at;
import constants::{DIMS, POSITIONS};
@if(shared_rows) import constants::{ROWS, ROW_SUBGROUPS};

@if(!shared_rows) const ROWS: u32 = 64u;
@if(!shared_rows) const ROW_SUBGROUPS: u32 = 1u;
const WG: u32 = 2u * ROWS * ROW_SUBGROUPS;
const TILE = vec2<u32>(1u, ROWS);
const MIN_SUBGROUP = 32u;
// Chunks of keys and of values. A lane loads a chunk at a time, eight elements, of four positions that meet in a lane's part of
// a matrix.
const KEY_CHUNKS: u32 = DIMS / 8u;
// Blocks of q8_0: each invocation loads the scales of one.
@if(q8_0) const BLOCKS: u32 = DIMS / 32u;
const VALUE_CHUNKS: u32 = min(DIMS, MAX_VALUE_DIM) / 8u;
const_assert POSITIONS * KEY_CHUNKS == 4u * WG;
// Invocations that load values: all of them, but where values are smaller than keys.
const VALUE_LOADERS: u32 = POSITIONS / 4u * VALUE_CHUNKS;
// Groups of 32 elements that a subgroup computes. Where values are smaller, some have fewer of their groups.
const GROUPS: u32 = DIMS / 32u / ROW_SUBGROUPS;
const VALUE_GROUPS: u32 = VALUE_CHUNKS / 4u;
// Matrices of sums that are multiplied at a time, with second halves and then with first ones: fewer need fewer registers.
@if(!q8_0 && !shared_rows) const SUMS_AT_ONCE: u32 = 4u;
@if(q8_0 || shared_rows) const SUMS_AT_ONCE: u32 = 2u;
// vec4s of words from one position to the next, or from four positions: eight lanes that read or write together do so in
// different banks.
const KEY_STRIDE: u32 = KEY_CHUNKS + 4u;
const VALUE_STRIDE: u32 = 4u * VALUE_CHUNKS + 2u;
// In the place of the first position that a row sees: the row is not among those that are computed.
const NO_ROW: u32 = 0xffffffffu;

// Two elements in a word.
var<workgroup> keys: array<vec4<u32>, POSITIONS * KEY_STRIDE>; // [position, chunk]
// The same element of two positions in a word. A vec4 has two elements of four positions: [four positions, chunk / 8, part
// of a chunk, chunk % 8].
var<workgroup> values: array<vec4<u32>, POSITIONS / 4u * VALUE_STRIDE>;
// The second parts of values, where there is room for keys as well.
@if(q8_0 && !shared_rows) var<workgroup> rests: array<vec4<u32>, POSITIONS / 4u * VALUE_STRIDE>;
@if(q8_0 && shared_rows) const_assert POSITIONS / 4u * VALUE_STRIDE <= POSITIONS * KEY_STRIDE;
// The scales of keys: [block, pair of positions], and those of values, in both halves of a word: [position, block].
@if(q8_0) var<workgroup> key_scales: array<vec2<f32>, WG / 2u>;
@if(q8_0) var<workgroup> value_scales: array<u32, WG>;
// Offsets of the keys and values in the cache, of two tiles in turn.
var<workgroup> head_offsets: array<u32, 2u * POSITIONS>;
// The scores of each subgroup's elements: [subgroup, position / 8, lane].
@if(shared_rows) var<workgroup> own_scores: array<vec4<f32>, WG / 8u * POSITIONS>;

// A chunk of each of a lane's positions.
alias Chunks = array<Load, 4>;
// The same as halves, two in a word.
alias HalfChunks = array<vec4<u32>, 4>;

// What an invocation loads: a chunk of four positions, of which the others are 1, 8 and 9 behind the first.
struct Own {
    chunk: u32,
    position: u32,
}

// What invocation `i` of those that load heads of `chunks` loads.
fn own_of(i: u32, chunks: u32) -> Own {
    let four = i / chunks;
    return Own(i % chunks, four / 4u * 16u + four % 4u * 2u);
}

// Finds where a tile's keys and values are. Positions beyond the last visible one repeat it, with weight 0.
fn find_heads(lid: u32, sequence: u32, first: u32, end: u32, kv_head: u32, pages: u32, vec4s: u32) {
    if lid < POSITIONS && first < end {
        let row = visible_kv_row(sequence, min(first + lid, end - 1u), kv_head, pages);
        head_offsets[first_offset(first) + lid] = head_offset(row, vec4s);
    }
}

// The place of the first offset of the tile at position `first`, which is one or the other for tiles that follow each other.
fn first_offset(first: u32) -> u32 {
    return first & POSITIONS;
}

fn load_offsets(first: u32, position: u32) -> vec4<u32> {
    let at = first_offset(first) + position;
    return vec4(head_offsets[at], head_offsets[at + 1u], head_offsets[at + 8u], head_offsets[at + 9u]);
}

fn load_keys(first: u32, own: Own) -> Chunks {
    let offsets = load_offsets(first, own.position);
    return Chunks(
        key_load(offsets.x, own.chunk),
        key_load(offsets.y, own.chunk),
        key_load(offsets.z, own.chunk),
        key_load(offsets.w, own.chunk),
    );
}

fn load_values(first: u32, own: Own) -> Chunks {
    let offsets = load_offsets(first, own.position);
    return Chunks(
        value_load(offsets.x, own.chunk),
        value_load(offsets.y, own.chunk),
        value_load(offsets.z, own.chunk),
        value_load(offsets.w, own.chunk),
    );
}

// Stores keys. `last_chunk` is the own one, unless that is beyond the head's end.
fn store_keys(lid: u32, chunks: Chunks, last_chunk: u32, vec4s: u32) {
    let own = own_of(lid, KEY_CHUNKS);
    let at = own.position * KEY_STRIDE + own.chunk;
    for (var i = 0u; i < 4u; i++) {
        let chunk = without_rest(chunks[i], last_chunk, vec4s);
        @if(!q8_0) let halves = chunk;
        @if(q8_0) let halves = vec4(byte_halves(chunk.x), byte_halves(chunk.y));
        keys[at + (i / 2u * 8u + i % 2u) * KEY_STRIDE] = halves;
    }
}

// Loads the scales of block `lid % BLOCKS` of a position: a word of its key and one of its value. Beyond the head's end it is that
// of another block; sums are 0 there.
@if(q8_0)
fn load_scales(lid: u32, first: u32, vec4s: u32) -> vec2<u32> {
    let head = head_offsets[first_offset(first) + lid / BLOCKS];
    return scales_of(head, vec4s, min(lid % BLOCKS * 8u, vec4s - 1u));
}

@if(q8_0)
fn store_scales(lid: u32, scales: vec2<u32>) {
    let position = lid / BLOCKS;
    // The other component is another invocation's: the translation to CUDA stores only this one.
    key_scales[(lid % BLOCKS * POSITIONS + position) / 2u][position % 2u] = half_at(scales.x, lid % BLOCKS);
    value_scales[lid] = cuda_byte_perm(scales.y, 0u, select(0x1010u, 0x3232u, lid % BLOCKS % 2u == 1u));
}

// The halves of a lane's values, or with `part` 1 their second parts.
@if(!q8_0)
fn value_halves(chunks: Chunks, part: u32, own: Own) -> HalfChunks {
    return HalfChunks(chunks[0], chunks[1], chunks[2], chunks[3]);
}

@if(q8_0)
fn value_halves(chunks: Chunks, part: u32, own: Own) -> HalfChunks {
    var halves: HalfChunks;
    for (var i = 0u; i < 4u; i++) {
        let scale = value_scales[(own.position + i / 2u * 8u + i % 2u) * BLOCKS + own.chunk / 4u];
        let all = halves_of(chunks[i], scale);
        halves[i] = vec4(all[part][0], all[part][1]);
    }
    return halves;
}

// Element `i` of four positions' chunks, and the next one, as tensor cores take them.
fn two_elements(chunks: HalfChunks, i: u32) -> vec4<u32> {
    return vec4(
        cuda_byte_perm(chunks[0][i], chunks[1][i], 0x5410u),
        cuda_byte_perm(chunks[2][i], chunks[3][i], 0x5410u),
        cuda_byte_perm(chunks[0][i], chunks[1][i], 0x7632u),
        cuda_byte_perm(chunks[2][i], chunks[3][i], 0x7632u),
    );
}

// Stores the values of four positions.
fn store_values(lid: u32, chunks: Chunks) {
    if VALUE_LOADERS < WG && lid >= VALUE_LOADERS {
        return;
    }
    let own = own_of(lid, VALUE_CHUNKS);
    let at = lid / VALUE_CHUNKS * VALUE_STRIDE + own.chunk / 8u * 32u + own.chunk % 8u;
    let halves = value_halves(chunks, 0u, own);
    @if(q8_0) let rest = value_halves(chunks, 1u, own);
    for (var i = 0u; i < 4u; i++) {
        values[at + 8u * i] = two_elements(halves, i);
        @if(q8_0 && !shared_rows) rests[at + 8u * i] = two_elements(rest, i);
        // All subgroups have multiplied the keys.
        @if(q8_0 && shared_rows) keys[at + 8u * i] = two_elements(rest, i);
    }
}

// The place of a row among the heads of all tokens.
fn query_head(row: u32, kv_head: u32, group: u32) -> u32 {
    return (row / group * p.kv_heads + kv_head) * group + row % group;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let kv_head = wid.x;
    let group = p.heads / p.kv_heads;
    let first_row = wid.y * ROWS;
    if kv_head >= p.kv_heads || first_row >= p.tokens * group {
        return;
    }
    let vec4s = clamp((p.head_dim + 3u) / 4u, 1u, DIMS / 4u);
    let value_vec4s = clamp((p.value_dim + 3u) / 4u, 1u, DIMS / 4u);
    let pages = cache_pages(vec4s);
    let last_row = min(first_row + ROWS, p.tokens * group) - 1u;
    let end_token = last_row / group + 1u;
    // Beyond the head's end its last chunk is repeated, where queries are 0 and nothing reads sums.
    var own_keys = own_of(lid, KEY_CHUNKS);
    // Invocations that have no values to load repeat the last ones.
    var own_values = own_of(select(lid, min(lid, VALUE_LOADERS - 1u), VALUE_LOADERS < WG), VALUE_CHUNKS);
    let last_chunk = (vec4s - 1u) / 2u;
    own_keys.chunk = min(own_keys.chunk, last_chunk);
    own_values.chunk = min(own_values.chunk, last_chunk);
    // The lane's rows, and its place among the lanes that share them.
    let lane = lid % 32u;
    let g = lane / 4u;
    let t = lane % 4u;
    let subgroup = lid / 32u;
    let rows = first_row + subgroup / ROW_SUBGROUPS * 16u + g + vec2(0u, 8u);
    let first_group = subgroup % ROW_SUBGROUPS * GROUPS;
    // The lane's part of the queries, 16 elements of each: first halves and second halves.
    var queries: array<array<vec4<u32>, 2>, 2u * GROUPS>;
    // The factors that make sums of products scores times log2(e) or, if they are to be capped, scores.
    var units: vec2<f32>;
    let score_unit = select(1.0, LOG2_E, p.softcap == 0.0);
    for (var r = 0u; r < 2u; r++) {
        // Rows beyond the last one repeat it; nothing reads their results.
        let base = query_head(min(rows[r], last_row), kv_head, group) * p.head_dim;
        var query: array<vec4<f32>, 2u * GROUPS>;
        var magnitude = 0.0;
        for (var i = 0u; i < 2u * GROUPS; i++) {
            query[i] = load_query(base, 8u * (first_group + i / 2u) + 2u * t + i % 2u);
            magnitude = max_magnitude(query[i], magnitude);
        }
        magnitude = quad_max(magnitude);
        let scale = half_scale(magnitude);
        units[r] = score_unit * half_unscale(magnitude);
        for (var i = 0u; i < 2u * GROUPS; i++) {
            let left = two_halves(scale * query[i].xy, SECOND_UNIT);
            let right = two_halves(scale * query[i].zw, SECOND_UNIT);
            for (var half = 0u; half < 2u; half++) {
                queries[i][half][r] = left[half];
                queries[i][half][2u + r] = right[half];
            }
        }
    }
    var token = first_row / group;
    while token < end_token {
        let first_token = token;
        let run = run_of_tokens(token, end_token, pages);
        let visible = run.visible;
        token = run.end;
        var starts = vec2(NO_ROW);
        var counts = vec2(0u);
        for (var r = 0u; r < 2u; r++) {
            // Rows beyond the last one would be of tokens beyond the last one.
            let own = rows[r] / group;
            if own >= first_token && own < token {
                let range = visible_range(index[own], pages);
                starts[r] = range.x;
                counts[r] = range.y - range.x;
            }
        }
        // [group, column]
        var acc: array<array<vec4<f32>, 4>, GROUPS>;
        for (var c = 0u; c < GROUPS; c++) {
            for (var n = 0u; n < 4u; n++) {
                acc[c][n] = vec4(0.0);
            }
        }
        // The scores, times log2(e), that have the weight 1.
        var reference = vec2(LOWEST);
        // Of this lane's positions.
        var total = vec2(0.0);
        find_heads(lid, run.sequence, visible.x, visible.y, kv_head, pages, vec4s);
        workgroupBarrier();
        var key_chunks: Chunks;
        @if(q8_0) var scales: vec2<u32>;
        if visible.x < visible.y {
            key_chunks = load_keys(visible.x, own_keys);
            @if(q8_0) scales = load_scales(lid, visible.x, vec4s);
        }
        for (var first = visible.x; first < visible.y; first += POSITIONS) {
            store_keys(lid, key_chunks, own_keys.chunk, vec4s);
            @if(q8_0) store_scales(lid, scales);
            workgroupBarrier();
            // Of 8 positions each; then weights.
            var scores: array<vec4<f32>, POSITIONS / 8u>;
            for (var j = 0u; j < POSITIONS / 8u; j++) {
                @if(q8_0) scores[j] = vec4(0.0);
                @if(!q8_0) var sums = array(vec4(0.0), vec4(0.0));
                for (var c = 0u; c < GROUPS; c++) {
                    @if(q8_0) var sums = array(vec4(0.0), vec4(0.0));
                    let key = keys[g * KEY_STRIDE + 4u * first_group + t + (8u * j * KEY_STRIDE + 4u * c)];
                    for (var half = 0u; half < 2u; half++) {
                        sums[half] = cuda_mma_m16n8k16(queries[2u * c][half], key.xy, sums[half]);
                        sums[half] = cuda_mma_m16n8k16(queries[2u * c + 1u][half], key.zw, sums[half]);
                    }
                    @if(q8_0) {
                        let scale = key_scales[(first_group + c) * (POSITIONS / 2u) + 4u * j + t];
                        scores[j] = fma(scale.xyxy, units.xxyy * fma(sums[1], vec4(1.0 / SECOND_UNIT), sums[0]), scores[j]);
                    }
                }
                @if(!q8_0) scores[j] = units.xxyy * fma(sums[1], vec4(1.0 / SECOND_UNIT), sums[0]);
            }
            @if(shared_rows) {
                for (var j = 0u; j < POSITIONS / 8u; j++) {
                    own_scores[(subgroup * (POSITIONS / 8u) + j) * 32u + lane] = scores[j];
                }
                workgroupBarrier();
                let first_subgroup = subgroup / ROW_SUBGROUPS * ROW_SUBGROUPS;
                for (var j = 0u; j < POSITIONS / 8u; j++) {
                    scores[j] = vec4(0.0);
                    for (var i = 0u; i < ROW_SUBGROUPS; i++) {
                        scores[j] += own_scores[((first_subgroup + i) * (POSITIONS / 8u) + j) * 32u + lane];
                    }
                }
            }
            // A loop that is not unrolled, so that compilers keep this rare case short.
            let capped_matrices = select(0u, min(POSITIONS, visible.y - first + 7u) / 8u, p.softcap != 0.0);
            for (var i = 0u; i < capped_matrices; i++) {
                var s = scores[0];
                for (var j = 1u; j < POSITIONS / 8u; j++) {
                    s = select(s, scores[j], i == j);
                }
                s = LOG2_E * vec4(capped(s.x), capped(s.y), capped(s.z), capped(s.w));
                for (var j = 0u; j < POSITIONS / 8u; j++) {
                    scores[j] = select(scores[j], s, i == j);
                }
            }
            let last = first + POSITIONS - 1u;
            if any(vec4(first - starts, last - starts) >= counts.xyxy) {
                for (var j = 0u; j < POSITIONS / 8u; j++) {
                    let positions = first + 8u * j + 2u * t + vec4(0u, 1u, 0u, 1u);
                    scores[j] = select(vec4(MASKED), scores[j], positions - starts.xxyy < counts.xxyy);
                }
            }
            // Not earlier, because scores need the registers.
            let value_chunks = load_values(first, own_values);
            var row_max = max(scores[0].xz, scores[0].yw);
            for (var j = 1u; j < POSITIONS / 8u; j++) {
                row_max = max(row_max, max(scores[j].xz, scores[j].yw));
            }
            row_max = vec2(quad_max(row_max.x), quad_max(row_max.y));
            let before = reference;
            reference = vec2(next_reference(before.x, row_max.x), next_reference(before.y, row_max.y));
            let rescale = exp2(before - reference);
            total *= rescale;
            for (var j = 0u; j < POSITIONS / 8u; j++) {
                scores[j] = exp2(scores[j] - reference.xxyy);
                total += scores[j].xz + scores[j].yw;
            }
            store_values(lid, value_chunks);
            let next = first + POSITIONS;
            find_heads(lid, run.sequence, next, visible.y, kv_head, pages, vec4s);
            workgroupBarrier();
            if next < visible.y {
                key_chunks = load_keys(next, own_keys);
                @if(q8_0) scales = load_scales(lid, next, vec4s);
            }
            // The weights of 16 positions each: first halves and second halves.
            var weights: array<array<vec4<u32>, 2>, POSITIONS / 16u>;
            for (var k = 0u; k < POSITIONS / 16u; k++) {
                for (var i = 0u; i < 4u; i++) {
                    let two = scores[2u * k + i / 2u];
                    let words = two_halves(select(two.xy, two.zw, i % 2u == 1u), 1.0);
                    weights[k][0][i] = words.x;
                    weights[k][1][i] = words.y;
                }
            }
            for (var c = 0u; c < GROUPS; c++) {
                if ROW_SUBGROUPS * GROUPS > VALUE_GROUPS && first_group + c >= VALUE_GROUPS {
                    break;
                }
                var sums = array(vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0));
                for (var k = 0u; k < POSITIONS / 16u; k++) {
                    let at = t * VALUE_STRIDE + 16u * first_group + g + (4u * k * VALUE_STRIDE + 16u * c);
                    @if(q8_0 && !shared_rows) let rest = array(rests[at], rests[at + 8u]);
                    @if(q8_0 && shared_rows) let rest = array(keys[at], keys[at + 8u]);
                    let value = array(values[at], values[at + 8u]);
                    for (var first_n = 0u; first_n < 4u; first_n += SUMS_AT_ONCE) {
                        // Second halves times second parts are too small to matter.
                        @if(q8_0)
                        for (var n = first_n; n < first_n + SUMS_AT_ONCE; n++) {
                            let two = select(rest[n / 2u].xy, rest[n / 2u].zw, n % 2u == 1u);
                            sums[n] = cuda_mma_m16n8k16(weights[k][0], two, sums[n]);
                        }
                        for (var half = 2u; half > 0u; half--) {
                            for (var n = first_n; n < first_n + SUMS_AT_ONCE; n++) {
                                let two = select(value[n / 2u].xy, value[n / 2u].zw, n % 2u == 1u);
                                sums[n] = cuda_mma_m16n8k16(weights[k][half - 1u], two, sums[n]);
                            }
                        }
                    }
                }
                for (var n = 0u; n < 4u; n++) {
                    acc[c][n] = fma(acc[c][n], rescale.xxyy, sums[n]);
                }
            }
            // Keys take the place of values' second parts.
            @if(q8_0 && shared_rows) workgroupBarrier();
        }
        total = vec2(quad_sum(total.x), quad_sum(total.y));
        for (var r = 0u; r < 2u; r++) {
            total[r] = with_sink(kv_head * group + rows[r] % group, LN_2 * reference[r], total[r]);
        }
        let inverse = 1.0 / select(total, vec2(1.0), total == vec2(0.0));
        for (var c = 0u; c < GROUPS; c++) {
            for (var n = 0u; n < 4u; n++) {
                acc[c][n] *= inverse.xxyy;
            }
        }
        for (var r = 0u; r < 2u; r++) {
            if starts[r] == NO_ROW {
                continue;
            }
            let base = query_head(rows[r], kv_head, group) * p.value_dim;
            for (var c = 0u; c < GROUPS; c++) {
                for (var i = 0u; i < 2u; i++) {
                    let at = 2u * r + i;
                    let sum = vec4(acc[c][0][at], acc[c][1][at], acc[c][2][at], acc[c][3][at]);
                    let own_group = first_group + c;
                    let own_vec4 = own_group / 2u * 16u + 4u * t + 2u * i + own_group % 2u;
                    if own_vec4 < value_vec4s {
                        store_out(base, own_vec4, sum, 1.0);
                    }
                }
            }
        }
    }
}

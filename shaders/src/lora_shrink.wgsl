// The first half of a low-rank adapter. A workgroup computes ROWS rows of one token; adjacent
// invocations read adjacent columns.
import constants::{WG, ROWS};

/// `lora_shrink`: `out[t, :] = a[adapter, :, :] * x[t, :]`, the first half of a low-rank adapter (Hu et
/// al. 2021, "LoRA"), where `adapter` is `adapters[sequence of t] - 1`. Grid: `[rows, tokens]`.
///
/// Adapter 0 means that a token has no adapter. Its row of `out` is then zero or unspecified, and
/// `lora_expand` does not read it. The same holds for an invalid sequence, or an adapter number past
/// the last slot; for these two the host's twin returns an error.
struct LoraShrinkParams {
    /// Tokens in the batch.
    tokens: u32,
    /// Rows of one adapter: its rank times the projections that are computed together.
    rows: u32,
    /// Elements in a row.
    cols: u32,
}

@group(0) @binding(0) var<uniform> p: LoraShrinkParams;
@group(0) @binding(1) var<storage, read> x: array<f32>; // [tokens, cols]
@group(0) @binding(2) var<storage, read> index: array<vec2<u32>>; // [tokens], of (sequence, position)
@group(0) @binding(3) var<storage, read> adapters: array<u32>; // [batch]
@group(0) @binding(4) var<storage, read> a: array<f32>; // [slots, rows, cols]
@group(0) @binding(5) var<storage, read_write> out: array<f32>; // [tokens, rows]

const TILE = vec2<u32>(ROWS, 1u);

var<workgroup> partials: array<array<f32, WG>, ROWS>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let first_row = (wid.x + wid.z * groups.x) * ROWS;
    let t = min(wid.y, p.tokens - 1u);
    let sequence = index[t].x;
    let slots = arrayLength(&a) / max(p.cols, 1u) / max(p.rows, 1u);
    let stored = adapters[min(sequence, arrayLength(&adapters) - 1u)];
    // An invalid sequence or adapter counts as no adapter.
    let adapter = select(0u, stored, sequence < arrayLength(&adapters) && stored <= slots);
    // No invocation may return before the barriers; without an adapter the sums stay 0.
    let cols = select(p.cols, 0u, adapter == 0u);
    var starts: array<u32, ROWS>;
    var sums: array<f32, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        starts[r] = ((max(adapter, 1u) - 1u) * p.rows + min(first_row + r, p.rows - 1u)) * p.cols;
        sums[r] = 0.0;
    }
    for (var c = lid; c < cols; c += WG) {
        let value = x[t * p.cols + c];
        for (var r = 0u; r < ROWS; r++) {
            sums[r] += a[starts[r] + c] * value;
        }
    }
    for (var r = 0u; r < ROWS; r++) {
        partials[r][lid] = sums[r];
    }
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        workgroupBarrier();
        if lid < stride {
            for (var r = 0u; r < ROWS; r++) {
                partials[r][lid] += partials[r][lid + stride];
            }
        }
    }
    workgroupBarrier();
    if lid < ROWS && first_row + lid < p.rows && wid.y < p.tokens {
        out[t * p.rows + first_row + lid] = partials[lid][0];
    }
}

// The second half of a low-rank adapter. An invocation computes one row; adjacent invocations read
// adjacent elements of b.
import constants::WG;

/// `lora_expand`: `y[t, r] += sum over j of b[adapter, j, first_row + r] * low_rank[t, projection, j]`,
/// the second half of a low-rank adapter (Hu et al. 2021, "LoRA"). `adapter` is `adapters[sequence of
/// t] - 1`; `projection` is the index of the row's projection among up to three stacked ones.
/// Grid: `[rows, tokens]`.
///
/// `y` is unchanged for a token without an adapter, and for one with an invalid sequence or an adapter
/// number past the last slot; for the latter two the host's twin returns an error.
struct LoraExpandParams {
    /// Tokens in the batch.
    tokens: u32,
    /// Elements in a row of `y`.
    rows: u32,
    /// The rank that adapters are padded to.
    rank: u32,
    /// Projections in `low_rank`.
    projections: u32,
    /// The row of `b` that belongs to the first element of `y`.
    first_row: u32,
    /// Rows of `b`: those of all projections together.
    b_rows: u32,
    /// The row of `b` at which the second projection begins; `u32::MAX` if there is none.
    second_start: u32,
    /// The row of `b` at which the third projection begins; `u32::MAX` if there is none.
    third_start: u32,
}

@group(0) @binding(0) var<uniform> p: LoraExpandParams;
@group(0) @binding(1) var<storage, read> low_rank: array<f32>; // [tokens, projections, rank]
@group(0) @binding(2) var<storage, read> index: array<vec2<u32>>; // [tokens], of (sequence, position)
@group(0) @binding(3) var<storage, read> adapters: array<u32>; // [batch]
@group(0) @binding(4) var<storage, read> b: array<f32>; // [slots, rank, b_rows]
@group(0) @binding(5) var<storage, read_write> y: array<f32>; // [tokens, rows]

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let r = (wid.x + wid.z * groups.x) * WG + lid;
    let t = wid.y;
    if r >= p.rows || t >= p.tokens {
        return;
    }
    let sequence = index[t].x;
    // Invalid sequence: no adapter.
    if sequence >= arrayLength(&adapters) {
        return;
    }
    let adapter = adapters[sequence];
    // No adapter, or an invalid one.
    if adapter == 0u || adapter > arrayLength(&b) / max(p.b_rows, 1u) / max(p.rank, 1u) {
        return;
    }
    let row = p.first_row + r;
    let projection = u32(row >= p.second_start) + u32(row >= p.third_start);
    let first_input = (t * p.projections + projection) * p.rank;
    let first_weight = (adapter - 1u) * p.rank * p.b_rows + row;
    var sum = 0.0;
    for (var j = 0u; j < p.rank; j++) {
        sum += b[first_weight + j * p.b_rows] * low_rank[first_input + j];
    }
    y[t * p.rows + r] += sum;
}

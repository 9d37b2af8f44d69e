// Embedding lookup. An invocation decodes one block of a row.
import package::blocks::load_block;
import package::encoding::{load_scales, BLOCKS_PER_SCALES};
import constants::WG;

/// `embed.<encoding>`: `out[t, :] = scale * table[ids[t, id_offset] - row_offset, :]`.
/// Grid: `[blocks, tokens]`.
///
/// `table` is a chunk of the whole table: rows `row_offset..row_offset + rows`. The rows of `out` for
/// tokens whose ids are in other chunks are not written. An id past the whole table selects its last
/// row; the host's twin returns an error.
struct EmbedParams {
    /// Tokens in the batch.
    tokens: u32,
    /// Rows of this chunk of the table.
    rows: u32,
    /// First row of this chunk.
    row_offset: u32,
    /// Rows of the whole table.
    table_rows: u32,
    /// Weights in a row.
    cols: u32,
    /// Blocks of 32 weights in a row.
    blocks: u32,
    /// Factor on every weight.
    scale: f32,
    /// Words of `ids` per token.
    id_stride: u32,
    /// Index of the token's id among these words.
    id_offset: u32,
}

@group(0) @binding(0) var<uniform> p: EmbedParams;
@group(0) @binding(1) var<storage, read> ids: array<u32>; // [tokens, id_stride]
@group(0) @binding(2) var<storage, read_write> out: array<f32>; // [tokens, cols]

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let b = (wid.x + wid.z * groups.x) * WG + lid;
    let t = wid.y;
    if b >= p.blocks || t >= p.tokens {
        return;
    }
    // Invalid id: clamped to the table's last row.
    let id = min(ids[t * p.id_stride + p.id_offset], p.table_rows - 1u);
    // Wraps around for ids of earlier chunks, so one comparison excludes both ends.
    let row = id - p.row_offset;
    if row >= p.rows {
        return;
    }
    let block = row * p.blocks + b;
    var w = load_block(block, b % BLOCKS_PER_SCALES, load_scales(block / BLOCKS_PER_SCALES));
    for (var g = 0u; g < 8u; g++) {
        let v = w[g] * p.scale;
        let c = 32u * b + 4u * g;
        let o = t * p.cols + c;
        if c < p.cols { out[o] = v.x; }
        if c + 1u < p.cols { out[o + 1u] = v.y; }
        if c + 2u < p.cols { out[o + 2u] = v.z; }
        if c + 3u < p.cols { out[o + 3u] = v.w; }
    }
}

//! From the rows of a file to `f32`.

use wisp_types::encoding::{BLOCK, Encoding};

use super::repack::{check_len, repack_rows_into};
use crate::{
    blocks::{Planes, dequantize_blocks, plane_bytes},
    error::EncodingError,
};

/// The number of weights that are packed at a time, at least a row.
const WEIGHTS_AT_ONCE: usize = 1 << 14;

/// Computes the weights `[rows, cols]` of whole rows of a file, which are little-endian: see
/// [`swap_byte_order`](super::swap_byte_order).
///
/// # Errors
///
/// If `cols` is not a whole number of blocks, or `file` does not have the length of `rows` rows.
pub fn dequantize(
    encoding: Encoding,
    file: &[u8],
    rows: usize,
    cols: usize,
) -> Result<Vec<f32>, EncodingError> {
    check_len(encoding, file, rows, cols)?;
    if rows == 0 || cols == 0 {
        return Ok(Vec::new());
    }
    let row_bytes = file.len() / rows;
    let rows_at_once = (WEIGHTS_AT_ONCE / cols).clamp(1, rows);
    let sizes = plane_bytes(encoding, rows_at_once, cols)?;
    let [mut main, mut high, mut scales] = sizes.map(|size| vec![0; size]);
    let row_blocks = cols.div_ceil(BLOCK);
    let mut row = vec![0.0; row_blocks * BLOCK];
    let mut out = Vec::with_capacity(rows * cols);
    for part in file.chunks(rows_at_once * row_bytes) {
        let rows = part.len() / row_bytes;
        let planes = [&mut main[..], &mut high, &mut scales];
        repack_rows_into(encoding, part, rows, cols, planes)?;
        let planes = Planes::new(encoding, [&main, &high, &scales], rows, cols)?;
        for r in 0..rows {
            dequantize_blocks(encoding, planes, r * row_blocks, &mut row);
            out.extend_from_slice(&row[..cols]);
        }
    }
    Ok(out)
}

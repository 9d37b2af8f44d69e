//! `lora_expand`: the second product of a low-rank adapter, from its rank to the output rows.

use std::ops::Range;

use rayon::prelude::*;
use wisp_shaders::params::LoraExpandParams;

use super::args::{Args, size};
use super::error::HostError;
use super::lora_shrink::adapters;
use wisp_weights::blocks::simd;

/// Rows of the result of one parallel task.
const COLUMNS: usize = 512;

/// The twin of `lora_expand.wgsl`.
pub(super) fn lora_expand(args: &Args) -> Result<(), HostError> {
    let p: LoraExpandParams = args.params()?;
    let (rows, rank, b_rows) = (p.rows as usize, p.rank as usize, p.b_rows as usize);
    let first = p.first_row as usize;
    if first.saturating_add(rows) > b_rows {
        let most = format!("at most {}", b_rows.saturating_sub(first));
        return Err(args.value("rows", most, p.rows));
    }
    let bounds =
        [p.second_start, p.third_start].map(|bound| (bound as usize).clamp(first, first + rows));
    if bounds[0] > bounds[1] {
        return Err(args.value(
            "second_start",
            format!("at most {}", p.third_start),
            p.second_start,
        ));
    }
    let last = bounds.iter().filter(|bound| **bound < first + rows).count();
    if rows > 0 && last >= p.projections as usize {
        return Err(args.value(
            "projections",
            format!("at least {}", last + 1),
            p.projections,
        ));
    }
    let low: &[f32] = args.read(1, size(&[p.tokens, p.projections, p.rank]))?;
    let matrix = size(&[p.rank, p.b_rows]);
    let chosen = adapters(args, p.tokens, matrix)?;
    let b: &[f32] = args.read_all(4)?;
    let y: &mut [f32] = args.write(5, size(&[p.tokens, p.rows]))?;
    let low_cols = p.projections as usize * rank;
    if rows == 0 || low_cols == 0 {
        return Ok(());
    }
    let ends = [bounds[0], bounds[1], first + rows];
    let tokens = y.par_chunks_mut(rows);
    let tokens = tokens.zip(low.par_chunks(low_cols).zip(chosen));
    tokens.for_each(|(y, (low, adapter))| {
        let Some(adapter) = adapter else { return };
        let b = &b[adapter * matrix..][..matrix];
        let chunks = y.par_chunks_mut(COLUMNS).enumerate();
        chunks.for_each(|(i, y)| {
            let chunk = first + i * COLUMNS;
            let mut start = first;
            for (low, end) in low.chunks_exact(rank).zip(ends) {
                // The rows of the projection that are in the chunk.
                let from = start.clamp(chunk, chunk + y.len());
                let to = end.clamp(from, chunk + y.len());
                add_rows(low, b, b_rows, from..to, &mut y[from - chunk..to - chunk]);
                start = end;
            }
        });
    });
    Ok(())
}

simd! {
    /// Adds the product of `low` and some columns of `b`, `[rank, b_rows]`, to `y`.
    fn add_rows(low: &[f32], b: &[f32], b_rows: usize, columns: Range<usize>, y: &mut [f32]) {
        for (factor, b) in low.iter().zip(b.chunks_exact(b_rows)) {
            for (y, weight) in y.iter_mut().zip(&b[columns.clone()]) {
                *y += weight * factor;
            }
        }
    }
}

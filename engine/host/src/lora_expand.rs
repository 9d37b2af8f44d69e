//! `lora_expand`: the second product of a low-rank adapter, from its rank to the output rows.

use rayon::prelude::*;
use wisp_shaders::params::LoraExpandParams;

use super::args::{Args, size};
use super::error::HostError;
use super::lora_shrink::adapters;

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
    y.par_chunks_mut(rows)
        .zip(low.par_chunks(low_cols).zip(chosen))
        .for_each(|(y, (low, adapter))| {
            let Some(adapter) = adapter else { return };
            let b = &b[adapter * matrix..][..matrix];
            let ends = [bounds[0], bounds[1], first + rows];
            let mut start = first;
            for (low, end) in low.chunks_exact(rank).zip(ends) {
                let y = &mut y[start - first..end - first];
                for (factor, b) in low.iter().zip(b.chunks_exact(b_rows)) {
                    for (y, weight) in y.iter_mut().zip(&b[start..end]) {
                        *y += weight * factor;
                    }
                }
                start = end;
            }
        });
    Ok(())
}

//! `matmul_experts.<encoding>` and its variant for activations in 8 bits: products with the encoded weights of the
//! selected experts.

use rayon::prelude::*;
use wisp_shaders::params::MatmulExpertsParams;

use super::args::{Args, size};
use super::dot::MAX_VECTORS;
use super::error::HostError;
use super::matmul::{Activations, ROWS};
use wisp_types::encoding::BLOCK;

/// The twin of `matmul.wgsl` with `experts`.
pub(super) fn matmul_experts<A: Activations>(
    activations: &A,
    args: &Args,
) -> Result<(), HostError> {
    let p: MatmulExpertsParams = args.params()?;
    let (rows, cols, share) = (p.rows as usize, p.cols as usize, p.pairs_per_row as usize);
    let blocks = cols.div_ceil(BLOCK);
    if p.blocks as usize != blocks {
        return Err(args.value("blocks", blocks, p.blocks));
    }
    if share == 0 || !p.pairs.is_multiple_of(p.pairs_per_row) {
        let divisor = format!("a divisor of {} pairs", p.pairs);
        return Err(args.value("pairs_per_row", divisor, p.pairs_per_row));
    }
    let x = activations.read(args, (p.pairs / p.pairs_per_row) as usize, cols)?;
    let out: &mut [f32] = args.write(2, size(&[p.pairs, p.rows]))?;
    let ids: &[u32] = args.read(3, p.pairs as usize)?;
    let planes = args.planes(
        activations.encoding(),
        A::PLANES,
        p.chunk_rows as usize,
        cols,
    )?;
    if let Some(id) = ids.iter().find(|id| **id >= p.experts) {
        return Err(args.value("an expert id", format!("less than {}", p.experts), *id));
    }
    if rows == 0 || cols == 0 {
        return Ok(());
    }
    let chunk = p.first_row as usize..p.first_row as usize + p.chunk_rows as usize;
    out.par_chunks_mut(rows).enumerate().for_each(|(t, out)| {
        // The expert's rows, numbered over all experts and clamped to this chunk.
        let start = ids[t] as usize * rows;
        let from = chunk.start.clamp(start, start + rows);
        let to = chunk.end.clamp(from, start + rows);
        out[from - start..to - start]
            .par_chunks_mut(ROWS)
            .enumerate()
            .for_each(|(task, out)| {
                let mut values = [[0.0; MAX_VECTORS]; ROWS];
                let values = &mut values[..out.len()];
                let first = from - chunk.start + task * ROWS;
                let row = t / share;
                activations.dots(&x, row..row + 1, planes, first, values);
                for (out, [value, ..]) in out.iter_mut().zip(values) {
                    *out = *value;
                }
            });
    });
    Ok(())
}

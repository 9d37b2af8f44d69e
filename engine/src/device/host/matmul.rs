//! `matmul.<encoding>`: products with an encoded weight.

use rayon::prelude::*;
use wisp_shaders::params::MatmulParams;

use super::args::{Args, size};
use super::error::HostError;
use super::math::dot;
use crate::weights::encoding::BLOCK;
use crate::weights::encodings::{Packed, load_blocks};

/// Rows of a task.
const ROWS: usize = 16;

/// The twin of `matmul.wgsl`.
pub(super) fn matmul<E: Packed>(args: &Args) -> Result<(), HostError> {
    let p: MatmulParams = args.params()?;
    let (rows, cols) = (p.rows as usize, p.cols as usize);
    let blocks = cols.div_ceil(BLOCK);
    if p.blocks as usize != blocks {
        return Err(args.value("blocks", blocks, p.blocks));
    }
    let (stride, offset) = (p.out_stride as usize, p.out_offset as usize);
    if stride < offset + rows {
        let least = format!("at least {}", offset + rows);
        return Err(args.value("out_stride", least, p.out_stride));
    }
    let x: &[f32] = args.read(1, size(&[p.tokens, p.cols]))?;
    let out: &mut [f32] = args.write(2, size(&[p.tokens, p.out_stride]))?;
    let planes = args.planes(E::ENCODING, 4, rows, cols)?;
    let bias = match p.has_bias {
        0 => None,
        _ => {
            let first = p.bias_offset as usize;
            Some(&args.read::<f32>(3, first + rows)?[first..])
        }
    };
    if rows == 0 || p.tokens == 0 {
        return Ok(());
    }
    let mut tasks: Vec<Vec<&mut [f32]>> = Vec::new();
    tasks.resize_with(rows.div_ceil(ROWS), Vec::new);
    for out in out.chunks_exact_mut(stride) {
        for (task, out) in tasks.iter_mut().zip(out[offset..][..rows].chunks_mut(ROWS)) {
            task.push(out);
        }
    }
    tasks
        .into_par_iter()
        .enumerate()
        .for_each(|(task, mut outs)| {
            let mut weights = vec![0.0; blocks * BLOCK];
            let count = outs[0].len();
            for i in 0..count {
                let row = task * ROWS + i;
                load_blocks::<E>(planes, row * blocks, &mut weights);
                let bias = bias.map_or(0.0, |bias| bias[row]);
                for (t, out) in outs.iter_mut().enumerate() {
                    out[i] = dot(&weights[..cols], &x[t * cols..][..cols]) + bias;
                }
            }
        });
    Ok(())
}

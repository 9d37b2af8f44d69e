//! `matmul.<encoding>` and `matmul_gated.<encoding>`: products with an encoded weight.

use rayon::prelude::*;
use wisp_shaders::params::{MatmulGatedParams, MatmulParams};

use super::args::{Args, size};
use super::dot::{MAX_VECTORS, dots};
use super::error::HostError;
use super::gated;
use super::panel;
use wisp_types::encoding::BLOCK;
use wisp_weights::blocks::{BlockEncoding, Planes};

/// Rows of one parallel task for few tokens.
const ROWS: usize = 16;

/// Up to this many tokens, weights are decoded in registers, again for every group of a few tokens.
const FEW_TOKENS: usize = 8;

/// Tokens whose panels are packed at once; the panels take at most 2 MiB.
const MANY_TOKENS: usize = 1024;

/// One product with checked arguments.
struct Matmul<'a> {
    planes: Planes<'a>,
    /// Tokens, each padded to whole blocks.
    x: Vec<&'a [f32]>,
    rows: usize,
    bias: Option<&'a [f32]>,
}

/// The twin of `matmul.wgsl`.
pub(super) fn matmul<E: BlockEncoding>(args: &Args) -> Result<(), HostError> {
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
    if rows == 0 || p.tokens == 0 || cols == 0 {
        return Ok(());
    }
    let out = out.chunks_exact_mut(stride);
    let out = out.map(|out| &mut out[offset..offset + rows]).collect();
    multiply::<E>(planes, (x, cols), (rows, bias), out);
    Ok(())
}

/// The twin of `matmul.wgsl` with `gated`.
pub(super) fn matmul_gated<E: BlockEncoding>(args: &Args) -> Result<(), HostError> {
    let p: MatmulGatedParams = args.params()?;
    let (rows, cols) = (p.rows as usize, p.cols as usize);
    let blocks = cols.div_ceil(BLOCK);
    if p.blocks as usize != blocks {
        return Err(args.value("blocks", blocks, p.blocks));
    }
    let x: &[f32] = args.read(1, size(&[p.tokens, p.cols]))?;
    let out: &mut [f32] = args.write(2, size(&[p.tokens, p.rows]))?;
    let both_rows = size(&[2, p.rows]);
    let planes = args.planes(E::ENCODING, 4, both_rows, cols)?;
    let bias = match p.has_bias {
        0 => None,
        _ => Some(args.read::<f32>(3, both_rows)?),
    };
    let gate = gated::multiply(p.activation)
        .ok_or_else(|| args.value("activation", "0 to 3", p.activation))?;
    if rows == 0 || p.tokens == 0 || cols == 0 {
        return Ok(());
    }
    let mut both = vec![0.0; p.tokens as usize * both_rows];
    let tokens = both.chunks_exact_mut(both_rows).collect();
    multiply::<E>(planes, (x, cols), (both_rows, bias), tokens);
    let tokens = out
        .par_chunks_exact_mut(rows)
        .zip(both.par_chunks_exact(both_rows));
    tokens.for_each(|(out, both)| gate(&both[..rows], &both[rows..], out));
    Ok(())
}

/// Multiplies rows of `cols` elements by a weight with so many rows and a bias; `out` has the rows of each
/// token.
fn multiply<E: BlockEncoding>(
    planes: Planes<'_>,
    (x, cols): (&[f32], usize),
    (rows, bias): (usize, Option<&[f32]>),
    out: Vec<&mut [f32]>,
) {
    let padded;
    let (x, width) = match cols.is_multiple_of(BLOCK) {
        true => (x, cols),
        false => {
            padded = pad(x, cols);
            (&padded[..], cols.next_multiple_of(BLOCK))
        }
    };
    let product = Matmul {
        planes,
        x: x.chunks_exact(width).collect(),
        rows,
        bias,
    };
    if out.len() <= FEW_TOKENS {
        product.few_tokens::<E>(out);
    } else {
        product.many_tokens::<E>(out);
    }
}

/// Returns rows of `cols` elements, each padded with zeros to whole blocks.
pub(super) fn pad(x: &[f32], cols: usize) -> Vec<f32> {
    let width = cols.next_multiple_of(BLOCK);
    let mut padded = vec![0.0; x.len() / cols * width];
    for (to, from) in padded.chunks_exact_mut(width).zip(x.chunks_exact(cols)) {
        to[..cols].copy_from_slice(from);
    }
    padded
}

impl Matmul<'_> {
    /// Decodes each block in registers, once for up to four tokens. `out` has the rows of each token.
    fn few_tokens<E: BlockEncoding>(&self, out: Vec<&mut [f32]>) {
        let mut tasks: Vec<Vec<&mut [f32]>> = Vec::new();
        tasks.resize_with(self.rows.div_ceil(ROWS), Vec::new);
        for out in out {
            for (task, out) in tasks.iter_mut().zip(out.chunks_mut(ROWS)) {
                task.push(out);
            }
        }
        tasks
            .into_par_iter()
            .enumerate()
            .for_each(|(task, mut outs)| {
                let first = task * ROWS;
                for (x, outs) in self.x.chunks(MAX_VECTORS).zip(outs.chunks_mut(MAX_VECTORS)) {
                    match x {
                        [a] => self.dots::<E, 1>(first, [a], outs),
                        [a, b] => self.dots::<E, 2>(first, [a, b], outs),
                        [a, b, c] => self.dots::<E, 3>(first, [a, b, c], outs),
                        [a, b, c, d] => self.dots::<E, 4>(first, [a, b, c, d], outs),
                        _ => {}
                    }
                }
            });
    }

    fn dots<E: BlockEncoding, const T: usize>(
        &self,
        first: usize,
        x: [&[f32]; T],
        outs: &mut [&mut [f32]],
    ) {
        let mut values = [[0.0; T]; ROWS];
        let values = &mut values[..outs[0].len()];
        dots::<E, T>(self.planes, first, x, values);
        for (t, out) in outs.iter_mut().enumerate() {
            for (i, out) in out.iter_mut().enumerate() {
                *out = values[i][t] + self.bias.map_or(0.0, |bias| bias[first + i]);
            }
        }
    }

    /// Decodes rows into a scratch panel and multiplies it with packed panels of tokens.
    fn many_tokens<E: BlockEncoding>(&self, mut out: Vec<&mut [f32]>) {
        let width = self.x[0].len();
        // Several tasks per thread, so that all threads finish at about the same time.
        let tasks = 4 * rayon::current_num_threads();
        let rows = self.rows.div_ceil(tasks).next_multiple_of(panel::ROWS);
        for (x, out) in self.x.chunks(MANY_TOKENS).zip(out.chunks_mut(MANY_TOKENS)) {
            let mut tasks: Vec<Vec<&mut [f32]>> = Vec::new();
            tasks.resize_with(self.rows.div_ceil(rows), Vec::new);
            for out in out.iter_mut() {
                match self.bias {
                    Some(bias) => out.copy_from_slice(&bias[..self.rows]),
                    None => out.fill(0.0),
                }
                for (task, out) in tasks.iter_mut().zip(out.chunks_mut(rows)) {
                    task.push(out);
                }
            }
            for start in (0..width).step_by(panel::DEPTH) {
                let depth = panel::DEPTH.min(width - start);
                let packed = panel::pack(x, start, depth);
                tasks.par_iter_mut().enumerate().for_each_init(
                    panel::scratch,
                    |scratch, (task, outs)| {
                        let part = panel::Part {
                            planes: self.planes,
                            first: task * rows,
                            start,
                            width,
                        };
                        panel::multiply::<E>(part, &packed, depth, scratch, outs);
                    },
                );
            }
        }
    }
}

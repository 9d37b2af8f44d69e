//! `batch_matmul`: products of strided matrices.

use std::ops::Range;

use rayon::prelude::*;
use wisp_shaders::params::BatchMatmulParams;

use super::args::Args;
use super::error::HostError;
use super::pool::{Pool, lengthen};
use super::strided::Places;
use wisp_weights::blocks::{Simd, simd};

/// Rows of the result of one parallel task, which packs `b` once for all of them.
const ROWS: usize = 32;

/// Rows of the result whose sums are in registers at once.
const TILE: usize = 4;

/// Columns of a panel.
const COLUMNS: usize = 16;

/// Rows of a panel, which stays in the second cache.
const DEPTH: usize = 1024;

/// The panels that no task uses, `[DEPTH, COLUMNS]`.
static PANELS: Pool<Vec<[f32; COLUMNS]>> = Pool::new();

/// The twin of `batch_matmul.wgsl`.
pub(super) fn batch_matmul(args: &Args) -> Result<(), HostError> {
    let p: BatchMatmulParams = args.params()?;
    let batch = Places::new(args, p.rank, &p.dims)?;
    let [m, n, k] = [p.m, p.n, p.k].map(|size| size as usize);
    let [a_row, a_col, b_row, b_col] =
        [p.a_row, p.a_col, p.b_row, p.b_col].map(|stride| stride as usize);
    // One past the last element of a matrix of these sizes and strides, without its first element.
    let end = |sizes: [usize; 2], strides: [usize; 2]| {
        let steps = sizes.iter().zip(strides);
        let last = steps.map(|(size, stride)| size.saturating_sub(1).saturating_mul(stride));
        last.fold(0, usize::saturating_add)
    };
    let (a_end, b_end) = (end([m, k], [a_row, a_col]), end([k, n], [b_row, b_col]));
    let reach = |strides, own: usize| match batch.end(0, strides) {
        0 => 0,
        _ if m == 0 || n == 0 || k == 0 => 0,
        last => last.saturating_add(own),
    };
    let a: &[f32] = args.read(1, reach(&p.a_strides, a_end))?;
    let b: &[f32] = args.read(2, reach(&p.b_strides, b_end))?;
    let len = batch.len().saturating_mul(m).saturating_mul(n);
    let out: &mut [f32] = args.write(3, len)?;
    if len == 0 {
        return Ok(());
    }
    // Larger only if both operands repeat one element along k: a loop that no memory bounds.
    let most = a.len().max(b.len());
    if k > most {
        return Err(args.value("k", format!("at most {most}"), p.k));
    }
    out.fill(0.0);
    let matrices = out.par_chunks_exact_mut(m * n).enumerate();
    matrices.for_each(|(i, out)| {
        let (a_first, b_first) = (batch.at(i, &p.a_strides), batch.at(i, &p.b_strides));
        let blocks = out.par_chunks_mut(ROWS * n).enumerate();
        blocks.for_each(|(block, out)| {
            let (a_first, rows) = (a_first + block * ROWS * a_row, out.len() / n);
            for start in (0..k).step_by(DEPTH) {
                let depth = DEPTH.min(k - start);
                let a = &a[a_first + start * a_col..];
                let b = &b[b_first + start * b_row..];
                let gathered: Vec<f32> = match a_col {
                    1 => Vec::new(),
                    _ => (0..rows)
                        .flat_map(|row| (0..depth).map(move |i| a[row * a_row + i * a_col]))
                        .collect(),
                };
                let a: Vec<&[f32]> = match a_col {
                    1 => (0..rows).map(|row| &a[row * a_row..][..depth]).collect(),
                    _ => gathered.chunks_exact(depth).collect(),
                };
                PANELS.lend(|panel| {
                    lengthen(panel, DEPTH, [0.0; COLUMNS]);
                    add_product(&a, b, [b_row, b_col], &mut panel[..depth], n, out);
                });
            }
        });
    });
    Ok(())
}

simd! {
    /// Adds the product of some rows and a matrix of these strides to `out`, `[rows, n]`. Products are added to an element
    /// one after the other, whatever the strides and the other rows are.
    fn add_product(
        a: &[&[f32]],
        b: &[f32],
        strides: [usize; 2],
        panel: &mut [[f32; COLUMNS]],
        n: usize,
        out: &mut [f32],
    ) where S: Simd {
        for first in (0..n).step_by(COLUMNS) {
            let columns = first..n.min(first + COLUMNS);
            pack::<S>(&b[first * strides[1]..], strides, columns.len(), panel);
            for (a, out) in a.chunks(TILE).zip(out.chunks_mut(TILE * n)) {
                if let Ok(a) = a.try_into() {
                    add_rows::<S, TILE>(a, panel, n, columns.clone(), out);
                    continue;
                }
                for (a, out) in a.iter().zip(out.chunks_exact_mut(n)) {
                    add_rows::<S, 1>([a], panel, n, columns.clone(), out);
                }
            }
        }
    }
}

/// Packs the first `count` columns of a matrix, so that each row of the panel holds those of a row. The others have no
/// meaning.
#[inline(always)]
fn pack<S: Simd>(
    b: &[f32],
    [b_row, b_col]: [usize; 2],
    count: usize,
    panel: &mut [[f32; COLUMNS]],
) {
    if b_col == 1 {
        for (i, row) in panel.iter_mut().enumerate() {
            let from = &b[i * b_row..][..count];
            match from.as_chunks().0 {
                [all] => *row = *all,
                _ => row[..count].copy_from_slice(from),
            }
        }
        return;
    }
    let mut packed = 0;
    if b_row == 1 && count == COLUMNS {
        for tile in panel.as_chunks_mut::<16>().0 {
            let mut columns = [S::splat(0.0); COLUMNS];
            for (j, column) in columns.iter_mut().enumerate() {
                *column = S::load(&b[j * b_col + packed..].as_chunks().0[0]);
            }
            for (row, values) in tile.iter_mut().zip(S::transpose(columns)) {
                S::store(values, row);
            }
            packed += tile.len();
        }
    }
    for j in 0..count {
        for (i, row) in panel.iter_mut().enumerate().skip(packed) {
            row[j] = b[i * b_row + j * b_col];
        }
    }
}

/// Adds to some columns of `R` rows of `n` elements.
#[inline(always)]
fn add_rows<S: Simd, const R: usize>(
    a: [&[f32]; R],
    panel: &[[f32; COLUMNS]],
    n: usize,
    columns: Range<usize>,
    out: &mut [f32],
) {
    let a = a.map(|a| &a[..panel.len()]);
    let mut sums = [S::splat(0.0); R];
    for (sum, out) in sums.iter_mut().zip(out.chunks_exact(n)) {
        let mut values = [0.0; COLUMNS];
        values[..columns.len()].copy_from_slice(&out[columns.clone()]);
        *sum = S::load(&values);
    }
    for (i, b) in panel.iter().enumerate() {
        let b = S::load(b);
        for (sum, a) in sums.iter_mut().zip(a) {
            *sum = S::mul_add(S::splat(a[i]), b, *sum);
        }
    }
    for (sum, out) in sums.into_iter().zip(out.chunks_exact_mut(n)) {
        let mut values = [0.0; COLUMNS];
        S::store(sum, &mut values);
        out[columns.clone()].copy_from_slice(&values[..columns.len()]);
    }
}

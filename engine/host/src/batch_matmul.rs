//! `batch_matmul`: products of strided matrices.

use rayon::prelude::*;
use wisp_shaders::params::BatchMatmulParams;

use super::args::Args;
use super::error::HostError;
use super::strided::Places;

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
    out.par_chunks_mut(n).enumerate().for_each(|(row, out)| {
        let a_first = batch.at(row / m, &p.a_strides) + row % m * a_row;
        let b_first = batch.at(row / m, &p.b_strides);
        out.fill(0.0);
        for i in 0..k {
            let factor = a[a_first + i * a_col];
            let b_row = b_first + i * b_row;
            for (j, out) in out.iter_mut().enumerate() {
                *out = factor.mul_add(b[b_row + j * b_col], *out);
            }
        }
    });
    Ok(())
}

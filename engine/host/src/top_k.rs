//! `top_k`: the largest elements of each row.

use rayon::prelude::*;
use wisp_shaders::params::TopKParams;

use super::argmax::finite;
use super::args::{Args, size};
use super::error::HostError;

/// The twin of `top_k.wgsl`.
pub(super) fn top_k(args: &Args) -> Result<(), HostError> {
    let p: TopKParams = args.params()?;
    if p.k > p.cols {
        return Err(args.value("k", format!("at most {}", p.cols), p.k));
    }
    let x: &[f32] = args.read(1, size(&[p.rows, p.cols]))?;
    let values: &mut [f32] = args.write(2, size(&[p.rows, p.k]))?;
    let ids: &mut [u32] = args.write(3, size(&[p.rows, p.k]))?;
    if p.k == 0 {
        return Ok(());
    }
    values
        .par_chunks_mut(p.k as usize)
        .zip(ids.par_chunks_mut(p.k as usize))
        .zip(x.par_chunks(p.cols as usize))
        .for_each(|((values, ids), x)| {
            let order = descending(x);
            for ((value, id), i) in values.iter_mut().zip(ids).zip(order) {
                (*value, *id) = (x[i as usize], i);
            }
        });
    Ok(())
}

/// Returns the indices of a row's elements in descending order, the lowest index first among equals.
/// NaN counts as the smallest number.
pub(super) fn descending(x: &[f32]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..x.len() as u32).collect();
    // The sort is stable, so the lowest index comes first. Adding zero turns -0 into 0.
    order.sort_by(|a, b| {
        let [a, b] = [a, b].map(|i| finite(x[*i as usize]) + 0.0);
        b.total_cmp(&a)
    });
    order
}

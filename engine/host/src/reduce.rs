//! `reduce`: sums, means, maxima and minima along one dimension.

use rayon::prelude::*;
use wisp_shaders::params::ReduceParams;

use super::args::{Args, size};
use super::error::HostError;

/// The twin of `reduce.wgsl`.
pub(super) fn reduce(args: &Args) -> Result<(), HostError> {
    let p: ReduceParams = args.params()?;
    let (n, inner) = (p.axis_size as usize, p.inner as usize);
    let x: &[f32] = args.read(1, size(&[p.outer, p.axis_size, p.inner]))?;
    let out: &mut [f32] = args.write(2, size(&[p.outer, p.inner]))?;
    if n == 0 {
        return Err(args.value("axis_size", "at least 1", p.axis_size));
    }
    let fold: fn(&mut dyn Iterator<Item = f32>) -> f32 = match p.kind {
        0 | 1 => |x| x.map(f64::from).sum::<f64>() as f32,
        2 => |x| x.fold(f32::NEG_INFINITY, f32::max),
        3 => |x| x.fold(f32::INFINITY, f32::min),
        kind => return Err(args.value("kind", "0 to 3", kind)),
    };
    out.par_iter_mut().enumerate().for_each(|(at, out)| {
        let first = at / inner * n * inner + at % inner;
        *out = fold(&mut x[first..].iter().step_by(inner).take(n).copied());
        if p.kind == 1 {
            *out /= n as f32;
        }
    });
    Ok(())
}

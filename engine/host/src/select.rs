//! `select`: elements of one of two tensors, chosen by a condition.

use rayon::prelude::*;
use wisp_shaders::params::SelectParams;

use super::args::Args;
use super::error::HostError;
use super::strided::Places;

/// The twin of `select.wgsl`.
pub(super) fn select(args: &Args) -> Result<(), HostError> {
    let p: SelectParams = args.params()?;
    let places = Places::new(args, p.rank, &p.dims)?;
    let condition: &[u32] = args.read(1, places.end(0, &p.condition_strides))?;
    let a: &[u32] = args.read(2, places.end(0, &p.a_strides))?;
    let b: &[u32] = args.read(3, places.end(0, &p.b_strides))?;
    let out: &mut [u32] = args.write(4, places.len())?;
    out.par_iter_mut().enumerate().for_each(|(place, out)| {
        *out = match condition[places.at(place, &p.condition_strides)] {
            0 => b[places.at(place, &p.b_strides)],
            _ => a[places.at(place, &p.a_strides)],
        };
    });
    Ok(())
}

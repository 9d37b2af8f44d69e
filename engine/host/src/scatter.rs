//! `scatter`: replaces slices of a tensor along one dimension, or adds to them.

use rayon::prelude::*;
use wisp_shaders::params::ScatterParams;

use super::args::{Args, size};
use super::error::HostError;

/// The twin of `scatter.wgsl`.
pub(super) fn scatter(args: &Args) -> Result<(), HostError> {
    let p: ScatterParams = args.params()?;
    let (n, inner) = (p.axis_size as usize, p.inner as usize);
    let x: &[f32] = args.read(1, size(&[p.outer, p.axis_size, p.inner]))?;
    let indices: &[u32] = args.read(2, p.index_count as usize)?;
    let updates: &[f32] = args.read(3, size(&[p.outer, p.index_count, p.inner]))?;
    let out: &mut [f32] = args.write(4, size(&[p.outer, p.axis_size, p.inner]))?;
    if out.is_empty() {
        return Ok(());
    }
    out.copy_from_slice(x);
    let per_outer = indices.len() * inner;
    out.par_chunks_mut(n * inner)
        .enumerate()
        .for_each(|(o, out)| {
            let updates = updates[o * per_outer..][..per_outer].chunks(inner);
            for (index, update) in indices.iter().zip(updates) {
                let Some(part) = out.chunks_mut(inner).nth(*index as usize) else {
                    continue;
                };
                for (value, update) in part.iter_mut().zip(update) {
                    *value = if p.accumulate != 0 {
                        *value + update
                    } else {
                        *update
                    };
                }
            }
        });
    Ok(())
}

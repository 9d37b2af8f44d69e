//! `gather`: slices of a tensor along one dimension, selected by indices.

use rayon::prelude::*;
use wisp_shaders::params::GatherParams;

use super::args::{Args, size};
use super::error::HostError;

/// The twin of `gather.wgsl`.
pub(super) fn gather(args: &Args) -> Result<(), HostError> {
    let p: GatherParams = args.params()?;
    let (n, inner, count) = (
        p.axis_size as usize,
        p.inner as usize,
        p.index_count as usize,
    );
    let x: &[u32] = args.read(1, size(&[p.outer, p.axis_size, p.inner]))?;
    let indices: &[u32] = args.read(2, count)?;
    let out: &mut [u32] = args.write(3, size(&[p.outer, p.index_count, p.inner]))?;
    if let Some(index) = indices.iter().find(|index| **index >= p.axis_size) {
        return Err(args.value("an index", format!("less than {n}"), *index));
    }
    if out.is_empty() {
        return Ok(());
    }
    out.par_chunks_mut(inner)
        .enumerate()
        .for_each(|(part, out)| {
            let index = indices[part % count] as usize;
            out.copy_from_slice(&x[(part / count * n + index) * inner..][..inner]);
        });
    Ok(())
}

//! `gather_rows`: rows of a matrix by their indices.

use rayon::prelude::*;
use wisp_shaders::params::GatherRowsParams;

use super::args::{Args, size};
use super::error::HostError;

/// The twin of `gather_rows.wgsl`.
pub(super) fn gather_rows(args: &Args) -> Result<(), HostError> {
    let p: GatherRowsParams = args.params()?;
    let cols = p.cols as usize;
    let x: &[f32] = args.read_all(1)?;
    let indices: &[u32] = args.read(2, p.rows as usize)?;
    let out: &mut [f32] = args.write(3, size(&[p.rows, p.cols]))?;
    if cols == 0 {
        return Ok(());
    }
    let rows = x.len() / cols;
    if let Some(index) = indices.iter().find(|index| **index as usize >= rows) {
        return Err(args.value("an index", format!("less than {rows}"), *index));
    }
    out.par_chunks_mut(cols)
        .zip(indices)
        .for_each(|(out, index)| {
            out.copy_from_slice(&x[*index as usize * cols..][..cols]);
        });
    Ok(())
}

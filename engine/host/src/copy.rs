//! `copy`: copies elements between strided tensors.

use rayon::prelude::*;
use wisp_shaders::params::CopyParams;

use super::args::Args;
use super::error::HostError;
use super::strided::Places;

/// Elements of one parallel task.
const CHUNK: usize = 32768;

/// The twin of `copy.wgsl`.
pub(super) fn copy(args: &Args) -> Result<(), HostError> {
    let p: CopyParams = args.params()?;
    let places = Places::new(args, p.rank, &p.dims)?;
    let x: &[u32] = args.read(1, places.end(p.x_offset, &p.x_strides))?;
    let out: &mut [u32] = args.write(2, places.end(p.out_offset, &p.out_strides))?;
    let len = places.len();
    if len == 0 {
        return Ok(());
    }
    let (x, out) = (&x[p.x_offset as usize..], &mut out[p.out_offset as usize..]);
    let dims = dims(&p);
    let Some((outer, inner)) = dims.split_first() else {
        out[0] = x[0];
        return Ok(());
    };
    let extent = 1 + inner.iter().map(|d| (d.size - 1) * d.to).sum::<usize>();
    if len <= CHUNK || outer.to < extent {
        copy_dims(outer, inner, x, out);
        return Ok(());
    }
    // No two elements of the outermost dimension overlap.
    let at_once = (CHUNK / (len / outer.size)).clamp(1, outer.size);
    let chunks = out.par_chunks_mut(at_once * outer.to).enumerate();
    chunks.for_each(|(i, out)| {
        let first = i * at_once;
        let size = at_once.min(outer.size - first);
        copy_dims(
            &Dim { size, ..*outer },
            inner,
            &x[first * outer.from..],
            out,
        );
    });
    Ok(())
}

/// A dimension of both tensors.
#[derive(Clone, Copy)]
struct Dim {
    size: usize,
    /// Its stride in `x`.
    from: usize,
    /// Its stride in `out`.
    to: usize,
}

/// Returns the dimensions of a call, outermost first, without those of size 1. Neighbours that both tensors step through
/// evenly become one.
fn dims(p: &CopyParams) -> Vec<Dim> {
    let mut dims: Vec<Dim> = Vec::new();
    for i in 0..p.rank as usize {
        let [size, from, to] = [p.dims[i], p.x_strides[i], p.out_strides[i]].map(|n| n as usize);
        match dims.last_mut() {
            _ if size == 1 => {}
            Some(outer) if outer.from == size * from && outer.to == size * to => {
                let size = outer.size * size;
                *outer = Dim { size, from, to };
            }
            _ => dims.push(Dim { size, from, to }),
        }
    }
    dims
}

/// Copies the elements of a dimension and of those inside it.
fn copy_dims(outer: &Dim, inner: &[Dim], x: &[u32], out: &mut [u32]) {
    let Dim { size, from, to } = *outer;
    match inner {
        [] if from == 1 && to == 1 => out[..size].copy_from_slice(&x[..size]),
        [] => (0..size).for_each(|i| out[i * to] = x[i * from]),
        [next, inner @ ..] => {
            (0..size).for_each(|i| copy_dims(next, inner, &x[i * from..], &mut out[i * to..]));
        }
    }
}

//! `lora_shrink`: the first product of a low-rank adapter, from the input columns to its rank.

use rayon::prelude::*;
use wisp_shaders::params::LoraShrinkParams;

use super::args::{Args, size};
use super::error::HostError;
use super::math::dot;

/// Elements of an adapter that a task reads at least.
const ELEMENTS: usize = 32768;

/// The twin of `lora_shrink.wgsl`.
pub(super) fn lora_shrink(args: &Args) -> Result<(), HostError> {
    let p: LoraShrinkParams = args.params()?;
    let (rows, cols) = (p.rows as usize, p.cols as usize);
    let x: &[f32] = args.read(1, size(&[p.tokens, p.cols]))?;
    let matrix = size(&[p.rows, p.cols]);
    let chosen = adapters(args, p.tokens, matrix)?;
    let a: &[f32] = args.read_all(4)?;
    let out: &mut [f32] = args.write(5, size(&[p.tokens, p.rows]))?;
    if rows == 0 || cols == 0 {
        return Ok(());
    }
    let outs = out.par_iter_mut().enumerate();
    let outs = outs.with_min_len((ELEMENTS / cols).max(1));
    outs.for_each(|(i, out)| {
        let (t, row) = (i / rows, i % rows);
        *out = chosen[t].map_or(0.0, |adapter| {
            let weights = &a[adapter * matrix..][..matrix];
            dot(&weights[row * cols..][..cols], &x[t * cols..][..cols])
        });
    });
    Ok(())
}

/// Returns each token's adapter, from the bindings 2 (`index`) and 3 (`adapters`). Checks that binding
/// 4 holds the matrix of every adapter, where `matrix` is the number of elements of one.
pub(super) fn adapters(
    args: &Args,
    tokens: u32,
    matrix: usize,
) -> Result<Vec<Option<usize>>, HostError> {
    let index: &[[u32; 2]] = args.read(2, tokens as usize)?;
    let adapters: &[u32] = args.read_all(3)?;
    let slots = args.read_all::<f32>(4)?.len() / matrix.max(1);
    let of = |[sequence, _]: &[u32; 2]| {
        let adapter = adapters.get(*sequence as usize).ok_or_else(|| {
            let sequences = adapters.len();
            args.value("a sequence", format!("less than {sequences}"), *sequence)
        })?;
        if *adapter as usize > slots {
            return Err(args.value("an adapter", format!("at most {slots}"), *adapter));
        }
        Ok(adapter.checked_sub(1).map(|slot| slot as usize))
    };
    index.iter().map(of).collect()
}

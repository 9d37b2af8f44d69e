//! `rope`: rotary position embeddings (Su et al. 2021).

use rayon::prelude::*;
use wisp_shaders::params::RopeParams;

use super::args::{Args, size};
use super::error::HostError;

/// The twin of `rope.wgsl`.
pub(super) fn rope(args: &Args) -> Result<(), HostError> {
    let p: RopeParams = args.params()?;
    let stride = p.stride as usize;
    let width = size(&[p.heads, p.head_dim]);
    if width.saturating_add(p.offset as usize) > stride {
        let least = format!("at least {}", width.saturating_add(p.offset as usize));
        return Err(args.value("stride", least, p.stride));
    }
    check_rotary_dim(args, p.rotary_dim, p.head_dim)?;
    let x: &mut [f32] = args.write(1, size(&[p.tokens, p.stride]))?;
    let index: &[[u32; 2]] = args.read(2, p.tokens as usize)?;
    let table = Table::take(args, 3, p.rotary_dim, index)?;
    if width == 0 {
        return Ok(());
    }
    x.par_chunks_mut(stride)
        .zip(index)
        .for_each(|(x, [_, position])| {
            let turns = table.row(*position);
            let heads = &mut x[p.offset as usize..][..width];
            for head in heads.chunks_exact_mut(p.head_dim as usize) {
                rotate(head, turns, p.interleaved != 0);
            }
        });
    Ok(())
}

/// Checks that `rotary_dim` is even and at most `head_dim`.
pub(super) fn check_rotary_dim(args: &Args, rotary: u32, head_dim: u32) -> Result<(), HostError> {
    if !rotary.is_multiple_of(2) || rotary > head_dim {
        return Err(args.value("rotary_dim", format!("even and at most {head_dim}"), rotary));
    }
    Ok(())
}

/// The cosine and sine of each pair's angle, one row per position.
pub(super) struct Table<'a> {
    turns: &'a [[f32; 2]],
    half: usize,
}

impl<'a> Table<'a> {
    /// Reads the table from a binding and checks that it has a row for every position of `index`.
    pub(super) fn take(
        args: &'a Args,
        binding: usize,
        rotary_dim: u32,
        index: &[[u32; 2]],
    ) -> Result<Self, HostError> {
        let turns: &[[f32; 2]] = args.read_all(binding)?;
        let half = rotary_dim as usize / 2;
        let positions = turns.len().checked_div(half).unwrap_or(usize::MAX);
        if let Some([_, position]) = index.iter().find(|[_, p]| *p as usize >= positions) {
            return Err(args.value("a position", format!("less than {positions}"), *position));
        }
        Ok(Table { turns, half })
    }

    pub(super) fn row(&self, position: u32) -> &'a [[f32; 2]] {
        &self.turns[position as usize * self.half..][..self.half]
    }
}

/// Rotates the first `2 * turns.len()` elements of a head.
pub(super) fn rotate(head: &mut [f32], turns: &[[f32; 2]], interleaved: bool) {
    let half = turns.len();
    if interleaved {
        let (pairs, _) = head.as_chunks_mut::<2>();
        for ([u, v], [cos, sin]) in pairs.iter_mut().zip(turns) {
            (*u, *v) = (*u * cos - *v * sin, *v * cos + *u * sin);
        }
    } else {
        let (first, second) = head.split_at_mut(half);
        for ((u, v), [cos, sin]) in first.iter_mut().zip(second).zip(turns) {
            (*u, *v) = (*u * cos - *v * sin, *v * cos + *u * sin);
        }
    }
}

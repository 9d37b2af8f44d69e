//! `attention`: causal attention of ragged queries over the paged cache.

use rayon::prelude::*;
use wisp_shaders::params::AttentionParams;

use super::args::{Args, size};
use super::error::HostError;
use super::math::{axpy, dot, exp};
use super::paged::{Pages, Shape, first_position};

/// The widest head, as in the kernels.
const MAX_HEAD_DIM: u32 = 256;

/// The twin of `attention.wgsl`.
pub(super) fn attention(args: &Args) -> Result<(), HostError> {
    let p: AttentionParams = args.params()?;
    if p.head_dim == 0 || p.head_dim > MAX_HEAD_DIM {
        let expected = format!("from 1 to {MAX_HEAD_DIM}");
        return Err(args.value("head_dim", expected, p.head_dim));
    }
    if p.kv_heads == 0 || !p.heads.is_multiple_of(p.kv_heads) {
        let expected = format!("a multiple of kv_heads, {}", p.kv_heads);
        return Err(args.value("heads", expected, p.heads));
    }
    let q: &[f32] = args.read(1, size(&[p.tokens, p.heads, p.head_dim]))?;
    let k_cache: &[f32] = args.read_all(2)?;
    let v_cache: &[f32] = args.read_all(3)?;
    let shape = Shape {
        tokens: p.tokens,
        kv_heads: p.kv_heads,
        head_dim: p.head_dim,
        page_size: p.page_size,
        max_pages: p.max_pages,
    };
    let cache = k_cache.len().min(v_cache.len());
    let pages = Pages::take(args, [4, 5], shape, cache, p.window)?;
    let out: &mut [f32] = args.write(6, size(&[p.tokens, p.heads, p.head_dim]))?;
    let (heads, head_dim) = (p.heads as usize, p.head_dim as usize);
    let group = (p.heads / p.kv_heads) as usize;
    out.par_chunks_mut(head_dim)
        .zip(q.par_chunks(head_dim))
        .enumerate()
        .for_each(|(i, (out, q))| {
            let [sequence, position] = pages.index[i / heads];
            let kv_head = i % heads / group * pages.width;
            let first = first_position(position, p.window);
            let mut greatest = f32::MIN;
            let mut scores: Vec<f32> = Vec::new();
            for position in first..=position as usize {
                let k = &k_cache[pages.row(sequence, position) + kv_head..][..head_dim];
                let mut score = dot(q, k) * p.scale;
                if p.softcap != 0.0 {
                    score = p.softcap * (score / p.softcap).tanh();
                }
                greatest = greatest.max(score);
                scores.push(score);
            }
            let mut total = 0.0;
            out.fill(0.0);
            for (position, score) in (first..).zip(scores) {
                let weight = exp(score - greatest);
                total += weight;
                let v = &v_cache[pages.row(sequence, position) + kv_head..][..head_dim];
                axpy(weight, v, out);
            }
            for out in out {
                *out /= total;
            }
        });
    Ok(())
}

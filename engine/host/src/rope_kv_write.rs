//! `rope_kv_write`: `rope` of queries and keys fused with `kv_write`, reading the output of the fused
//! QKV projection. `norm_rope_kv_write` applies an `rms_norm` to each head first.

use rayon::prelude::*;
use wisp_shaders::params::RopeKvWriteParams;

use super::args::{Args, size};
use super::cache::Heads;
use super::error::HostError;
use super::kv_write::{LEAST_TOKENS, write_heads, write_tokens};
use super::math::dot;
use super::paged::{Pages, Shape, Visibility};
use super::rope::{Table, check_rotary_dim, rotate};

/// The twin of `rope_kv_write.wgsl`.
pub(super) fn rope_kv_write(args: &Args) -> Result<(), HostError> {
    write(args, false)
}

/// The twin of `rope_kv_write.wgsl` with `norm`.
pub(super) fn norm_rope_kv_write(args: &Args) -> Result<(), HostError> {
    write(args, true)
}

fn write(args: &Args, is_normed: bool) -> Result<(), HostError> {
    let p: RopeKvWriteParams = args.params()?;
    let head_dim = p.head_dim as usize;
    let norms: Option<(&[f32], &[f32])> = match is_normed {
        true => Some(args.read(8, 2 * head_dim)?.split_at(head_dim)),
        false => None,
    };
    let normalise = |head: &mut [f32], weights: Option<&[f32]>| {
        if let Some(weights) = weights {
            let scale = 1.0 / (dot(head, head) / head_dim as f32 + p.eps).sqrt();
            for (x, weight) in head.iter_mut().zip(weights) {
                *x *= scale * (weight + p.weight_offset);
            }
        }
    };
    let q_width = size(&[p.heads, p.head_dim]);
    let kv_width = size(&[p.kv_heads, p.head_dim]);
    let width = q_width.saturating_add(kv_width.saturating_mul(2));
    check_rotary_dim(args, p.rotary_dim, p.head_dim)?;
    let qkv: &[f32] = args.read(1, width.saturating_mul(p.tokens as usize))?;
    let q: &mut [f32] = args.write(2, size(&[p.tokens, p.heads, p.head_dim]))?;
    let k_cache: &mut [u32] = args.write_all(6)?;
    let v_cache: &mut [u32] = args.write_all(7)?;
    let shape = Shape {
        tokens: p.tokens,
        kv_heads: p.kv_heads,
        heads: Heads::new(args.cache_format()?, p.head_dim),
        page_size: p.page_size,
        max_pages: p.max_pages,
    };
    let pages = Pages::take(
        args,
        [3, 5],
        shape,
        k_cache.len().min(v_cache.len()),
        Visibility::OWN,
    )?;
    let table = Table::take(args, 4, p.rotary_dim, pages.index)?;
    if head_dim == 0 {
        return Ok(());
    }
    let prepare = |heads: &mut [f32], weights: Option<&[f32]>, t: usize| {
        let turns = table.row(pages.index[t][1]);
        for head in heads.chunks_exact_mut(head_dim) {
            normalise(head, weights);
            rotate(head, turns, p.interleaved != 0);
        }
    };
    let part =
        |t: usize, offset: usize, width_of_part: usize| &qkv[t * width + offset..][..width_of_part];
    let tokens = q.par_chunks_exact_mut(q_width.max(1)).enumerate();
    let tokens = tokens.with_min_len(LEAST_TOKENS);
    tokens.for_each(|(t, out)| {
        out.copy_from_slice(part(t, 0, q_width));
        prepare(out, norms.map(|(queries, _)| queries), t);
    });
    write_tokens(&pages, k_cache, |t, words| {
        let mut keys = part(t, q_width, kv_width).to_vec();
        prepare(&mut keys, norms.map(|(_, keys)| keys), t);
        write_heads(pages.heads, &keys, words);
    });
    write_tokens(&pages, v_cache, |t, words| {
        write_heads(pages.heads, part(t, q_width + kv_width, kv_width), words);
    });
    Ok(())
}

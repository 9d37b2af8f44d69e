//! `rope_kv_write`: `rope` of queries and keys fused with `kv_write`, reading the output of the fused
//! QKV projection. `norm_rope_kv_write` applies an `rms_norm` to each head first.

use wisp_shaders::params::RopeKvWriteParams;

use super::args::{Args, size};
use super::cache::Heads;
use super::error::HostError;
use super::kv_write::write_heads;
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
    let interleaved = p.interleaved != 0;
    let mut turned = vec![0.0; kv_width];
    for (t, &[sequence, position]) in pages.index.iter().enumerate() {
        let turns = table.row(position);
        let (queries, rest) = qkv[t * width..][..width].split_at(q_width);
        let (keys, values) = rest.split_at(kv_width);
        let out = &mut q[t * q_width..][..q_width];
        out.copy_from_slice(queries);
        for head in out.chunks_exact_mut(head_dim) {
            normalise(head, norms.map(|(queries, _)| queries));
            rotate(head, turns, interleaved);
        }
        let row = pages.row(sequence, position as usize);
        turned.copy_from_slice(keys);
        for head in turned.chunks_exact_mut(head_dim) {
            normalise(head, norms.map(|(_, keys)| keys));
            rotate(head, turns, interleaved);
        }
        write_heads(pages.heads, &turned, &mut k_cache[row..]);
        write_heads(pages.heads, values, &mut v_cache[row..]);
    }
    Ok(())
}

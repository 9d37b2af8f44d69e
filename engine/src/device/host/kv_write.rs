//! `kv_write`: new keys and values into the paged cache.

use wisp_shaders::params::KvWriteParams;

use super::args::{Args, size};
use super::error::HostError;
use super::paged::{Pages, Shape, Sight};

/// The twin of `kv_write.wgsl`.
pub(super) fn kv_write(args: &Args) -> Result<(), HostError> {
    let p: KvWriteParams = args.params()?;
    let k: &[f32] = args.read(1, size(&[p.tokens, p.k_stride]))?;
    let v: &[f32] = args.read(2, size(&[p.tokens, p.v_stride]))?;
    let k_cache: &mut [f32] = args.write_all(5)?;
    let v_cache: &mut [f32] = args.write_all(6)?;
    let shape = Shape {
        tokens: p.tokens,
        kv_heads: p.kv_heads,
        head_dim: p.head_dim,
        page_size: p.page_size,
        max_pages: p.max_pages,
    };
    let pages = Pages::take(
        args,
        [3, 4],
        shape,
        k_cache.len().min(v_cache.len()),
        Sight::OWN,
    )?;
    let width = size(&[p.kv_heads, p.head_dim]);
    for (what, stride, offset) in [
        ("k_stride", p.k_stride, p.k_offset),
        ("v_stride", p.v_stride, p.v_offset),
    ] {
        let least = width.saturating_add(offset as usize);
        if (stride as usize) < least {
            return Err(args.value(what, format!("at least {least}"), stride));
        }
    }
    for (t, &[sequence, position]) in pages.index.iter().enumerate() {
        let row = pages.row(sequence, position as usize);
        let k = &k[t * p.k_stride as usize + p.k_offset as usize..][..width];
        let v = &v[t * p.v_stride as usize + p.v_offset as usize..][..width];
        write_heads(k, p.head_dim, &mut k_cache[row..], pages.width);
        write_heads(v, p.head_dim, &mut v_cache[row..], pages.width);
    }
    Ok(())
}

/// Copies heads, each padded with zeros to `width`.
pub(super) fn write_heads(heads: &[f32], head_dim: u32, row: &mut [f32], width: usize) {
    let head_dim = head_dim as usize;
    if head_dim == 0 {
        return;
    }
    for (head, to) in heads
        .chunks_exact(head_dim)
        .zip(row.chunks_exact_mut(width))
    {
        let (elements, padding) = to.split_at_mut(head_dim);
        elements.copy_from_slice(head);
        padding.fill(0.0);
    }
}

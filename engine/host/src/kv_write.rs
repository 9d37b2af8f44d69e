//! `kv_write`: writes new keys and values to the paged cache.

use wisp_shaders::params::KvWriteParams;

use super::args::{Args, size};
use super::cache::Heads;
use super::error::HostError;
use super::paged::{Pages, Shape, Visibility};

/// The twin of `kv_write.wgsl`.
pub(super) fn kv_write(args: &Args) -> Result<(), HostError> {
    let p: KvWriteParams = args.params()?;
    let k: &[f32] = args.read(1, size(&[p.tokens, p.k_stride]))?;
    let v: &[f32] = args.read(2, size(&[p.tokens, p.v_stride]))?;
    let k_cache: &mut [u32] = args.write_all(5)?;
    let v_cache: &mut [u32] = args.write_all(6)?;
    let shape = Shape {
        tokens: p.tokens,
        kv_heads: p.kv_heads,
        heads: Heads::new(args.cache_format()?, p.head_dim),
        page_size: p.page_size,
        max_pages: p.max_pages,
    };
    let pages = Pages::take(
        args,
        [3, 4],
        shape,
        k_cache.len().min(v_cache.len()),
        Visibility::OWN,
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
        write_heads(pages.heads, k, &mut k_cache[row..]);
        write_heads(pages.heads, v, &mut v_cache[row..]);
    }
    Ok(())
}

/// Encodes contiguous heads one after the other.
pub(super) fn write_heads(heads: Heads, from: &[f32], to: &mut [u32]) {
    if heads.head_dim == 0 {
        return;
    }
    let to = to.chunks_exact_mut(heads.words);
    for (head, words) in from.chunks_exact(heads.head_dim).zip(to) {
        heads.encode(head, words);
    }
}

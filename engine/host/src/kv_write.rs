//! `kv_write`: writes new keys and values to the paged cache.

use rayon::prelude::*;
use wisp_shaders::params::KvWriteParams;

use super::args::{Args, size};
use super::cache::Heads;
use super::error::HostError;
use super::paged::{Pages, Shape, Visibility};

/// The twin of `kv_write.wgsl`.
pub(super) fn kv_write(args: &Args) -> Result<(), HostError> {
    let p: KvWriteParams = args.params()?;
    let k = heads_in(args, &p, 1, "k_stride", [p.k_stride, p.k_offset])?;
    let v = heads_in(args, &p, 2, "v_stride", [p.v_stride, p.v_offset])?;
    write(
        args,
        &p,
        [3, 4],
        [(k, args.write_all(5)?), (v, args.write_all(6)?)],
    )
}

/// The twin of `kv_write.wgsl` with `keys`.
pub(super) fn key_write(args: &Args) -> Result<(), HostError> {
    let p: KvWriteParams = args.params()?;
    let k = heads_in(args, &p, 1, "k_stride", [p.k_stride, p.k_offset])?;
    write(args, &p, [2, 3], [(k, args.write_all(4)?)])
}

/// Heads of the tokens of a call, contiguous in each token.
struct TokenHeads<'a> {
    x: &'a [f32],
    stride: usize,
    offset: usize,
}

/// Reads heads whose tokens are `stride` elements apart.
fn heads_in<'a>(
    args: &'a Args,
    p: &KvWriteParams,
    binding: usize,
    what: &'static str,
    [stride, offset]: [u32; 2],
) -> Result<TokenHeads<'a>, HostError> {
    let x = args.read(binding, size(&[p.tokens, stride]))?;
    let [stride, offset] = [stride, offset].map(|elements| elements as usize);
    let least = size(&[p.kv_heads, p.head_dim]).saturating_add(offset);
    match stride < least {
        true => Err(args.value(what, format!("at least {least}"), stride as u64)),
        false => Ok(TokenHeads { x, stride, offset }),
    }
}

/// Writes heads of each token to caches of the same size, with the index and the page table at these bindings.
fn write<const N: usize>(
    args: &Args,
    p: &KvWriteParams,
    tables: [usize; 2],
    caches: [(TokenHeads, &mut [u32]); N],
) -> Result<(), HostError> {
    let shape = Shape {
        tokens: p.tokens,
        kv_heads: p.kv_heads,
        heads: Heads::new(args.cache_format()?, p.head_dim),
        page_size: p.page_size,
        max_pages: p.max_pages,
    };
    let len = caches.iter().map(|(_, cache)| cache.len()).min();
    let pages = Pages::take(args, tables, shape, len.unwrap_or(0), Visibility::OWN)?;
    let width = size(&[p.kv_heads, p.head_dim]);
    for (heads, cache) in caches {
        write_tokens(&pages, cache, |t, words| {
            let of_token = &heads.x[t * heads.stride + heads.offset..][..width];
            write_heads(pages.heads, of_token, words);
        });
    }
    Ok(())
}

/// Tokens that a task encodes at least.
pub(super) const LEAST_TOKENS: usize = 8;

/// Tokens that are encoded before they are copied to the cache.
const MOST_TOKENS: usize = 128;

/// Writes the heads of each token, which `encode` encodes, to its row of a cache. Tokens may share a row, so threads encode
/// into other memory, from which the rows are copied in the order of the tokens.
pub(super) fn write_tokens(
    pages: &Pages,
    cache: &mut [u32],
    encode: impl Fn(usize, &mut [u32]) + Sync,
) {
    let (tokens, words) = (pages.index.len(), pages.row_words());
    let row = |t: usize| {
        let [sequence, position] = pages.index[t];
        let first = pages.row(sequence, position as usize);
        first..first + words
    };
    if tokens < 2 * LEAST_TOKENS || words == 0 {
        (0..tokens).for_each(|t| encode(t, &mut cache[row(t)]));
        return;
    }
    let mut encoded = vec![0; tokens.min(MOST_TOKENS) * words];
    for first in (0..tokens).step_by(MOST_TOKENS) {
        let encoded = &mut encoded[..MOST_TOKENS.min(tokens - first) * words];
        let rows = encoded.par_chunks_exact_mut(words).enumerate();
        let rows = rows.with_min_len(LEAST_TOKENS);
        rows.for_each(|(i, to)| encode(first + i, to));
        for (i, from) in encoded.chunks_exact(words).enumerate() {
            cache[row(first + i)].copy_from_slice(from);
        }
    }
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

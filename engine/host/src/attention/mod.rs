//! `attention` and its siblings: attention of ragged queries over the paged cache.

mod call;
mod chunks;
mod flash;
mod token;

use rayon::prelude::*;
use wisp_shaders::params::{AttentionParams, MAX_HEAD_DIM, MAX_VALUE_DIM};

use crate::{
    args::{Args, size},
    cache::Heads,
    error::HostError,
    paged::{Pages, Shape, Visibility},
};
use call::Attention;
pub(super) use chunks::{attention_combine, attention_split};

/// The twin of `attention.wgsl` and `attention_tiled.wgsl`.
pub(super) fn attention(args: &Args) -> Result<(), HostError> {
    attend(args, false)
}

/// The twin of both with `bidirectional`.
pub(super) fn full_attention(args: &Args) -> Result<(), HostError> {
    attend(args, true)
}

/// Checks the arguments that all kernels but `attention_combine` share.
fn checked<'a>(args: &'a Args, bidirectional: bool) -> Result<Attention<'a>, HostError> {
    let p: AttentionParams = args.params()?;
    if p.head_dim == 0 || p.head_dim > MAX_HEAD_DIM {
        let expected = format!("from 1 to {MAX_HEAD_DIM}");
        return Err(args.value("head_dim", expected, p.head_dim));
    }
    let most = MAX_VALUE_DIM.min(p.head_dim);
    if p.value_dim == 0 || p.value_dim > most {
        return Err(args.value("value_dim", format!("from 1 to {most}"), p.value_dim));
    }
    if p.kv_heads == 0 || p.heads == 0 || !p.heads.is_multiple_of(p.kv_heads) {
        let expected = format!("a multiple of kv_heads, {}", p.kv_heads);
        return Err(args.value("heads", expected, p.heads));
    }
    let q: &[f32] = args.read(1, size(&[p.tokens, p.heads, p.head_dim]))?;
    let k_cache: &[f32] = args.read_all(2)?;
    let v_cache: &[f32] = args.read_all(3)?;
    let shape = Shape {
        tokens: p.tokens,
        kv_heads: p.kv_heads,
        heads: Heads::new(args.cache_format()?, p.head_dim),
        page_size: p.page_size,
        max_pages: p.max_pages,
    };
    let cache = k_cache.len().min(v_cache.len());
    let visibility = Visibility {
        window: p.window,
        chunked: p.chunked != 0,
        lengths: bidirectional.then(|| args.read_all(8)).transpose()?,
    };
    let pages = Pages::take(args, [4, 5], shape, cache, visibility)?;
    Ok(Attention {
        p,
        q,
        k_cache,
        v_cache,
        sinks: sinks(args, &p, 7)?,
        pages,
    })
}

/// Reads the sinks of a call, if it has any.
fn sinks<'a>(
    args: &'a Args,
    p: &AttentionParams,
    binding: usize,
) -> Result<Option<&'a [f32]>, HostError> {
    match p.has_sinks {
        0 => Ok(None),
        _ => args.read(binding, size(&[p.heads])).map(Some),
    }
}

fn attend(args: &Args, bidirectional: bool) -> Result<(), HostError> {
    let call = checked(args, bidirectional)?;
    let p = call.p;
    let out: &mut [f32] = args.write(6, size(&[p.tokens, p.heads, p.value_dim]))?;
    // The blocks are consecutive and cover all tokens.
    let mut rows = out.chunks_exact_mut(call.out_token());
    let mut tasks = Vec::new();
    for tokens in call.blocks(flash::ROWS) {
        // For each KV head, its part of each token's row.
        let mut outs: Vec<Vec<&mut [f32]>> = Vec::new();
        outs.resize_with(p.kv_heads as usize, || Vec::with_capacity(tokens.len()));
        for row in rows.by_ref().take(tokens.len()) {
            let heads = row.chunks_exact_mut(call.group() * call.value_dim());
            outs.iter_mut()
                .zip(heads)
                .for_each(|(outs, out)| outs.push(out));
        }
        let heads = outs.into_iter().enumerate();
        tasks.extend(heads.map(|(kv_head, outs)| (tokens.clone(), kv_head, outs)));
    }
    tasks
        .into_par_iter()
        .for_each(|(tokens, kv_head, mut outs)| match &mut outs[..] {
            [out] => token::kv_head_of_token(&call, [tokens.start, kv_head], out),
            outs => flash::block(&call, tokens, kv_head, outs),
        });
    Ok(())
}

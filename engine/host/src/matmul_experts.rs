//! `matmul_experts.<encoding>` and its variant for activations in 8 bits: products with the encoded weights of the
//! selected experts.

use std::{borrow::Cow, collections::BTreeMap};

use rayon::prelude::*;
use wisp_shaders::params::MatmulExpertsParams;

use super::args::{Args, size};
use super::error::HostError;
use super::matmul::{Activations, Product};
use wisp_types::encoding::BLOCK;

/// The twin of `matmul.wgsl` with `experts`.
pub(super) fn matmul_experts<A: Activations>(
    activations: &A,
    args: &Args,
) -> Result<(), HostError> {
    let p: MatmulExpertsParams = args.params()?;
    let (rows, cols, share) = (p.rows as usize, p.cols as usize, p.pairs_per_row as usize);
    let blocks = cols.div_ceil(BLOCK);
    if p.blocks as usize != blocks {
        return Err(args.value("blocks", blocks, p.blocks));
    }
    if share == 0 || !p.pairs.is_multiple_of(p.pairs_per_row) {
        let divisor = format!("a divisor of {} pairs", p.pairs);
        return Err(args.value("pairs_per_row", divisor, p.pairs_per_row));
    }
    let x = activations.read(args, (p.pairs / p.pairs_per_row) as usize, cols)?;
    let out: &mut [f32] = args.write(2, size(&[p.pairs, p.rows]))?;
    let ids: Cow<[u32]> = match p.in_turn {
        0 => Cow::Borrowed(args.read(3, p.pairs as usize)?),
        _ => (0..p.pairs).map(|pair| pair % p.experts.max(1)).collect(),
    };
    let planes = args.planes(
        activations.encoding(),
        A::PLANES,
        p.chunk_rows as usize,
        cols,
    )?;
    if let Some(id) = ids.iter().find(|id| **id >= p.experts) {
        return Err(args.value("an expert id", format!("less than {}", p.experts), *id));
    }
    if rows == 0 || cols == 0 {
        return Ok(());
    }
    let chunk = p.first_row as usize..p.first_row as usize + p.chunk_rows as usize;
    let groups = groups(&ids, out.chunks_exact_mut(rows));
    groups.into_par_iter().for_each(|group| {
        // The expert's rows, numbered over all experts and clamped to this chunk.
        let start = group.expert as usize * rows;
        let from = chunk.start.clamp(start, start + rows);
        let to = chunk.end.clamp(from, start + rows);
        if from == to {
            return;
        }
        let product = Product {
            activations,
            x: &x,
            inputs: group.pairs.iter().map(|pair| pair / share).collect(),
            planes,
            first: from - chunk.start,
            blocks,
            rows: to - from,
            bias: None,
        };
        let outs = group.outs.into_iter();
        product.multiply(outs.map(|out| &mut out[from - start..to - start]).collect());
    });
    Ok(())
}

/// The pairs of an expert and their outputs, so that each of its weights is read and decoded once.
struct Group<'a> {
    expert: u32,
    pairs: Vec<usize>,
    outs: Vec<&'a mut [f32]>,
}

/// Groups pairs by their experts. Large groups come first, so that threads do not wait for them at the end.
fn groups<'a>(ids: &[u32], outs: impl Iterator<Item = &'a mut [f32]>) -> Vec<Group<'a>> {
    let mut groups: BTreeMap<u32, Group> = BTreeMap::new();
    for (pair, (expert, out)) in ids.iter().copied().zip(outs).enumerate() {
        let group = groups.entry(expert).or_insert_with(|| Group {
            expert,
            pairs: Vec::new(),
            outs: Vec::new(),
        });
        group.pairs.push(pair);
        group.outs.push(out);
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.pairs.len()));
    groups
}

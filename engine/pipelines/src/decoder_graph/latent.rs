//! Projections of multi-head latent attention.

use std::ops::Range;

use wisp_graph::{
    Binary, HeadSpec, Op, RopeSpec, ValueId,
    ops::{Concat, Slice},
};
use wisp_types::shape;
use wisp_weights::View;

use super::{builder::GraphBuilder, error::DecoderError, inputs::BlockInputs, projections::Rows};
use crate::spec::LatentAttention;

impl GraphBuilder<'_, '_> {
    /// Adds the queries, keys and values of latent attention (DeepSeek-AI 2024, "DeepSeek-V2"), all `[tokens, heads *
    /// head_dim]`. Keys are rotated, queries are not yet. The elements of a head that rotate come first. Values have fewer elements, after which others follow
    /// that [`Self::latent_values`] drops: the cache stores keys and values alike.
    pub fn latent_qkv(
        &mut self,
        layer: usize,
        x: ValueId,
        latent: LatentAttention,
        inputs: &BlockInputs,
    ) -> Result<[ValueId; 3], DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let (hidden, heads) = (spec.hidden_size, u64::from(spec.heads));
        let [width, rope] = [spec.head_dim, spec.rotary_dim].map(u64::from);
        let still = width - rope;
        let name = |template: &str| self.layer_name(template, layer);
        let [q_a, q_a_norm, q_b, q] =
            [&names.q_a, &names.q_a_norm, &names.q_b, &names.q].map(|template| name(template));
        let [kv_a, kv_a_norm] = [&names.kv_a, &names.kv_a_norm].map(|template| name(template));
        let rotated_first = [still..width, 0..still];
        let q = match latent.q_rank {
            Some(rank) => {
                let low = self.whole_linear(x, q_a, [rank, hidden])?;
                let low = self.norm(spec.norm, low, q_a_norm, rank)?;
                let ranges = per_head(heads, width, &rotated_first);
                self.linear(low, &Rows::of(q_b, ranges, heads * width), rank)?
            }
            None => {
                let ranges = per_head(heads, width, &rotated_first);
                self.linear(x, &Rows::of(q, ranges, heads * width), hidden)?
            }
        };
        let rank = latent.kv_rank;
        let both = [0..rank, rank..rank + rope];
        let [low, k_rope] = both.map(|rows| Rows::of(kv_a.clone(), vec![rows], rank + rope));
        let low = self.linear(x, &low, hidden)?;
        let low = self.norm(spec.norm, low, kv_a_norm, rank)?;
        let k_rope = self.linear(x, &k_rope, hidden)?;
        let k_rope = self.rotated_key(layer, k_rope, inputs)?;
        let [k, v] = self.keys_and_values(layer, low, latent)?;
        // All heads share the elements that rotate.
        let k_rope = self.graph.reshape(k_rope, shape!["tokens", 1u64, rope])?;
        let zeros = vec![0.0; (heads * rope) as usize];
        let zeros = self.graph.constant(&zeros, shape![heads, rope])?;
        let k_rope = self.graph.add(Binary::Add, &[k_rope, zeros])?;
        let k = self.graph.reshape(k, shape!["tokens", heads, still])?;
        let k = self.graph.add(Concat { axis: 2 }, &[k_rope, k])?;
        let k = self.graph.reshape(k, shape!["tokens", heads * width])?;
        Ok([q, k, v])
    }

    /// Adds the part of keys that does not rotate and the values, from their low rank, `[tokens, heads * unrotated]` and
    /// `[tokens, heads * head_dim]`.
    fn keys_and_values(
        &mut self,
        layer: usize,
        low: ValueId,
        latent: LatentAttention,
    ) -> Result<[ValueId; 2], DecoderError> {
        let (spec, names, rank) = (self.spec, self.names, latent.kv_rank);
        let [heads, width, rope, value] =
            [spec.heads, spec.head_dim, spec.rotary_dim, latent.value_dim].map(u64::from);
        let still = width - rope;
        let [kv_b, k_b, v_b] =
            [&names.kv_b, &names.k_b, &names.v_b].map(|template| self.layer_name(template, layer));
        let size = still + value;
        if self.has(&format!("{kv_b}.weight")) || !self.has(&format!("{k_b}.weight")) {
            let parts: [Vec<Range<u64>>; 2] = [
                std::iter::once(0..still).collect(),
                // Any rows stand where a value has no elements.
                vec![still..size, 0..width.saturating_sub(value)],
            ];
            let parts = parts.map(|parts| {
                let ranges = per_head(heads, size, &parts);
                Rows::of(kv_b.clone(), ranges, heads * size)
            });
            let [k, v] = &parts;
            return Ok([self.linear(low, k, rank)?, self.linear(low, v, rank)?]);
        }
        let name = format!("{k_b}.weight");
        let view = View::TransposedMatrices {
            tensor: name.clone(),
        };
        let k = self.view(format!("{name}[transposed]"), view, &[heads * still, rank])?;
        let k = self.product(low, k, None)?;
        let mut parts: Vec<Range<u64>> = std::iter::once(0..value).collect();
        let mut missing = width.saturating_sub(value);
        while missing > 0 && value > 0 {
            parts.push(0..missing.min(value));
            missing -= missing.min(value);
        }
        let ranges = per_head(heads, value, &parts);
        let v = self.weight_rows(&v_b, ranges, [heads * width.max(value), rank])?;
        Ok([k, self.product(low, v, None)?])
    }

    /// Adds the rotation of the part of a key that all heads share.
    fn rotated_key(
        &mut self,
        layer: usize,
        key: ValueId,
        inputs: &BlockInputs,
    ) -> Result<ValueId, DecoderError> {
        let (spec, settings) = (self.spec, self.spec.layers[layer]);
        let rope = Op::Rope(RopeSpec {
            heads: HeadSpec {
                heads: 1,
                head_dim: spec.rotary_dim,
            },
            rotary_dim: settings.rope.map_or(0, |_| spec.rotary_dim),
            interleaved: spec.rope_interleaved,
        });
        let table = inputs.rope_tables[settings.rope.unwrap_or(spec.ropes.len())];
        Ok(self.graph.add(rope, &[key, inputs.index, table])?)
    }

    /// Drops the elements of attended values `[tokens, heads * head_dim]` that are none: `[tokens, heads *
    /// value_dim]`.
    pub fn latent_values(
        &mut self,
        x: ValueId,
        latent: LatentAttention,
    ) -> Result<ValueId, DecoderError> {
        let [heads, width, value] =
            [self.spec.heads, self.spec.head_dim, latent.value_dim].map(u64::from);
        if value == width {
            return Ok(x);
        }
        let x = self.graph.reshape(x, shape!["tokens", heads, width])?;
        let slice = Slice {
            axis: 2,
            start: 0,
            len: value,
            step: 1,
        };
        let x = self.graph.add(slice, &[x])?;
        Ok(self.graph.reshape(x, shape!["tokens", heads * value])?)
    }
}

/// Returns parts of each head among the rows of a projection with `size` rows a head.
fn per_head(heads: u64, size: u64, parts: &[Range<u64>]) -> Vec<Range<u64>> {
    let heads = (0..heads).map(|head| head * size);
    let ranges = heads.flat_map(|at| parts.iter().map(move |part| at + part.start..at + part.end));
    ranges.collect()
}

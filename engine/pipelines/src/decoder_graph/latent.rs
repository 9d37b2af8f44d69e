//! Multi-head latent attention in its absorbed form (DeepSeek-AI 2024, "DeepSeek-V2", section 2.1).
//!
//! A head's key is a matrix times the vector of low rank that is cached, so that its score is the product of that vector
//! with the query times the matrix. Likewise the sum of weighted values is a matrix times the sum of weighted vectors.
//! Attention therefore has one KV head, whose key is the cached vector and the elements that rotate, and whose value is the
//! cached vector.

use std::ops::Range;

use wisp_graph::{
    HeadSpec, NormSpec, Op, RopeSpec, ValueId,
    ops::{Concat, LinearExperts},
};
use wisp_types::shape;
use wisp_weights::View;

use super::{builder::GraphBuilder, error::DecoderError, inputs::BlockInputs, projections::Rows};
use crate::spec::LatentAttention;

impl GraphBuilder<'_, '_> {
    /// Adds the queries of latent attention, `[tokens, heads * (kv_rank + rotary_dim)]`, and the keys, `[tokens, kv_rank +
    /// rotary_dim]`. Both are rotated.
    pub fn latent_qk(
        &mut self,
        layer: usize,
        x: ValueId,
        latent: LatentAttention,
        inputs: &BlockInputs,
    ) -> Result<[ValueId; 2], DecoderError> {
        let (spec, names, hidden) = (self.spec, self.names, self.spec.hidden_size);
        let [heads, rank, rope] = [spec.heads, latent.kv_rank, spec.rotary_dim].map(u64::from);
        let q = self.latent_queries(layer, x, latent, inputs)?;
        let kv_a = self.layer_name(&names.kv_a, layer);
        let parts = [0..rank, rank..rank + rope];
        let [low, k_rope] = parts.map(|rows| Rows::of(kv_a.clone(), vec![rows], rank + rope));
        let low = self.linear(x, &low, hidden)?;
        let norm = self.layer_name(&names.kv_a_norm, layer);
        let low = self.norm(self.low_rank_norm(latent), low, norm, rank)?;
        // What is cached has the order of the columns by which it is multiplied.
        let kv_b = format!("{}.weight", self.layer_name(&names.kv_b, layer));
        let low = self.in_order_of(low, &kv_b)?;
        let k_rope = self.linear(x, &k_rope, hidden)?;
        let k_rope = self.rotated_part(layer, 1, k_rope, &inputs.rope_tables, inputs)?;
        let k = self.graph.add(Concat { axis: 1 }, &[low, k_rope])?;
        let q = self
            .graph
            .reshape(q, shape!["tokens", heads * (rank + rope)])?;
        Ok([q, k])
    }

    /// Returns the norm of vectors of low rank.
    fn low_rank_norm(&self, latent: LatentAttention) -> NormSpec {
        NormSpec {
            eps: latent.norm_eps,
            ..self.spec.norm
        }
    }

    /// Adds the queries, `[tokens, heads, kv_rank + rotary_dim]`: those that do not rotate, times the matrices of the keys,
    /// and those that do.
    fn latent_queries(
        &mut self,
        layer: usize,
        x: ValueId,
        latent: LatentAttention,
        inputs: &BlockInputs,
    ) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let [heads, width, rope] = [spec.heads, spec.head_dim, spec.rotary_dim].map(u64::from);
        let still = width - rope;
        let [q_a, q_a_norm, q_b, q] = [&names.q_a, &names.q_a_norm, &names.q_b, &names.q]
            .map(|name| self.layer_name(name, layer));
        let (x, name, cols) = match latent.q_rank {
            Some(rank) => {
                let low = self.whole_linear(x, q_a, [rank, spec.hidden_size])?;
                let norm = self.low_rank_norm(latent);
                (self.norm(norm, low, q_a_norm, rank)?, q_b, rank)
            }
            None => (x, q, spec.hidden_size),
        };
        let [q, q_rope] = [0..still, still..width].map(|part| {
            let ranges = per_head(heads, width, part);
            Rows::of(name.clone(), ranges, heads * width)
        });
        let q = self.linear(x, &q, cols)?;
        let q = self.graph.reshape(q, shape!["tokens", heads, still])?;
        let weight = self.latent_key_weight(layer, latent)?;
        let q = self.graph.add(LinearExperts, &[q, weight])?;
        let q_rope = self.linear(x, &q_rope, cols)?;
        let q_rope = self.rotated_part(layer, spec.heads, q_rope, &inputs.query_tables, inputs)?;
        let q_rope = self.graph.reshape(q_rope, shape!["tokens", heads, rope])?;
        Ok(self.graph.add(Concat { axis: 2 }, &[q, q_rope])?)
    }

    /// Adds the rotation of the part of queries or keys that rotates, `[tokens, heads * rotary_dim]`.
    fn rotated_part(
        &mut self,
        layer: usize,
        heads: u32,
        x: ValueId,
        tables: &[ValueId],
        inputs: &BlockInputs,
    ) -> Result<ValueId, DecoderError> {
        let (spec, settings) = (self.spec, self.spec.layers[layer]);
        let rope = Op::Rope(RopeSpec {
            heads: HeadSpec {
                heads,
                head_dim: spec.rotary_dim,
            },
            rotary_dim: settings.rope.map_or(0, |_| spec.rotary_dim),
            interleaved: spec.rope_interleaved,
        });
        let table = tables[settings.rope.unwrap_or(spec.ropes.len())];
        Ok(self.graph.add(rope, &[x, inputs.index, table])?)
    }

    /// Adds the values of each head, `[tokens, heads * value_dim]`, from the sums of weighted vectors of low rank, `[tokens,
    /// heads * kv_rank]`.
    pub fn latent_values(
        &mut self,
        layer: usize,
        x: ValueId,
        latent: LatentAttention,
    ) -> Result<ValueId, DecoderError> {
        let [heads, rank, value] =
            [self.spec.heads, latent.kv_rank, latent.value_dim].map(u64::from);
        let weight = self.latent_value_weight(layer, latent)?;
        let x = self.graph.reshape(x, shape!["tokens", heads, rank])?;
        let x = self.graph.add(LinearExperts, &[x, weight])?;
        Ok(self.graph.reshape(x, shape!["tokens", heads * value])?)
    }

    /// Adds the matrices by which the part of queries that does not rotate is multiplied, `[heads, kv_rank, unrotated]`.
    /// Where the checkpoint has those of keys, they are transposed: blocks of quantised ones cannot be, so that they become
    /// F32.
    fn latent_key_weight(
        &mut self,
        layer: usize,
        latent: LatentAttention,
    ) -> Result<ValueId, DecoderError> {
        let [heads, width, rope] =
            [self.spec.heads, self.spec.head_dim, self.spec.rotary_dim].map(u64::from);
        let still = width - rope;
        let shape = [heads, latent.kv_rank.into(), still];
        let Some(tensor) = self.joint_projection(layer) else {
            let name = format!("{}.weight", self.layer_name(&self.names.k_b, layer));
            return self.weight(name, &shape);
        };
        let name = format!("{tensor}[keys, transposed]");
        let view = View::TransposedMatrices {
            tensor,
            matrices: heads,
            rows: 0..still,
        };
        self.view(name, view, &shape)
    }

    /// Adds the matrices of the values, `[heads, value_dim, kv_rank]`.
    fn latent_value_weight(
        &mut self,
        layer: usize,
        latent: LatentAttention,
    ) -> Result<ValueId, DecoderError> {
        let spec = self.spec;
        let [heads, width, rope, value] =
            [spec.heads, spec.head_dim, spec.rotary_dim, latent.value_dim].map(u64::from);
        let still = width - rope;
        let shape = [heads, value, latent.kv_rank.into()];
        let Some(tensor) = self.joint_projection(layer) else {
            let name = format!("{}.weight", self.layer_name(&self.names.v_b, layer));
            return self.weight(name, &shape);
        };
        let ranges = per_head(heads, still + value, still..still + value).into_iter();
        let rows = ranges.map(|range| (tensor.clone(), range)).collect();
        self.view(format!("{tensor}[values]"), View::Rows(rows), &shape)
    }

    /// Returns the tensor of the matrices of keys and values together, unless the checkpoint has them apart.
    fn joint_projection(&self, layer: usize) -> Option<String> {
        let [kv_b, k_b] = [&self.names.kv_b, &self.names.k_b]
            .map(|name| format!("{}.weight", self.layer_name(name, layer)));
        (self.has(&kv_b) || !self.has(&k_b)).then_some(kv_b)
    }
}

/// Returns a part of each head among the rows of a projection with `size` rows a head.
fn per_head(heads: u64, size: u64, part: Range<u64>) -> Vec<Range<u64>> {
    let heads = (0..heads).map(|head| head * size);
    heads.map(|at| at + part.start..at + part.end).collect()
}

//! Attention with its projections and its KV cache.

use wisp_graph::{
    AttentionSpec, Binary, CacheFormat, HeadSpec, Op, RopeSpec, Unary, ValueId, ops::KvWrite,
};
use wisp_types::{DType, Shape, shape};

use super::{
    builder::GraphBuilder,
    error::DecoderError,
    inputs::{BlockInputs, Paging},
};
use crate::spec::{CachedHeads, HeadSizes, LoraGroup, QkNorm};

impl GraphBuilder<'_, '_> {
    /// Adds attention with its projections, without the norms around it.
    pub fn attention(
        &mut self,
        layer: usize,
        x: ValueId,
        inputs: &BlockInputs,
    ) -> Result<ValueId, DecoderError> {
        let spec = self.spec;
        let settings = spec.layers[layer];
        let cached = spec.cached_heads(layer);
        let rings = inputs.rings.filter(|_| settings.window.is_some());
        let paging = rings.unwrap_or(inputs.paging);
        let [k_cache, v_cache] = match inputs.encoder {
            Some(encoder) => encoder.caches,
            None => {
                let owner = settings.shared_kv.unwrap_or(layer);
                match self.caches.get(&owner) {
                    Some(caches) => *caches,
                    None => self.kv_caches(owner, paging, inputs.format, &format!(".{owner}")),
                }
            }
        };
        self.caches.insert(layer, [k_cache, v_cache]);
        let (q, gate) = self.write_kv(layer, x, [k_cache, v_cache], paging, inputs)?;
        // A window that no sequence exceeds would only hide from the kernels how short sequences are.
        let window = settings
            .window
            .filter(|window| u64::from(*window) < inputs.max_length);
        let lengths = inputs.encoder.and_then(|encoder| encoder.lengths);
        let attention = Op::Attention(AttentionSpec {
            heads: spec.heads,
            kv_heads: cached.kv_heads,
            head_dim: cached.head_dim,
            value_dim: cached.value_dim,
            page_size: paging.page_size,
            format: inputs.format,
            window: window.unwrap_or(0),
            chunked: window.is_some() && settings.chunked,
            scale: settings.attention_scale,
            softcap: spec.attention_softcap,
            causal: lengths.is_none(),
        });
        let mut operands = vec![q, k_cache, v_cache, inputs.index, paging.table];
        operands.extend(lengths);
        if settings.sinks {
            let name = self.layer_name(&self.names.sinks, layer);
            operands.push(self.weight(name, &[spec.heads.into()])?);
        }
        let attended = self.graph.add(attention, &operands)?;
        self.attention_output(layer, attended, gate)
    }

    /// Adds the queries of attention and, unless another layer's are used, keys and values, which are written to the
    /// caches. Returns the queries and the gate of attention's output, if there is one.
    fn write_kv(
        &mut self,
        layer: usize,
        x: ValueId,
        [k_cache, v_cache]: [ValueId; 2],
        paging: Paging,
        inputs: &BlockInputs,
    ) -> Result<(ValueId, Option<ValueId>), DecoderError> {
        let cached = self.spec.cached_heads(layer);
        let write = KvWrite {
            heads: HeadSpec {
                heads: cached.kv_heads,
                head_dim: cached.head_dim,
            },
            page_size: paging.page_size,
            format: inputs.format,
        };
        let shared = self.spec.layers[layer].shared_kv;
        match (shared, self.spec.latent) {
            (Some(_), _) => Ok((self.rotated_q(layer, x, inputs)?, None)),
            (None, Some(latent)) => {
                let [q, k] = self.latent_qk(layer, x, latent, inputs)?;
                let operands = [k, inputs.index, paging.table, k_cache];
                self.graph.add(write, &operands)?;
                Ok((q, None))
            }
            (None, None) => {
                let ([q, k, v], gate) = self.rotated_qkv(layer, x, inputs)?;
                let operands = [k, v, inputs.index, paging.table, k_cache, v_cache];
                self.graph.add(write, &operands)?;
                Ok((q, gate))
            }
        }
    }

    /// Adds the gate of attention's output and the projection after it.
    fn attention_output(
        &mut self,
        layer: usize,
        mut attended: ValueId,
        gate: Option<ValueId>,
    ) -> Result<ValueId, DecoderError> {
        let spec = self.spec;
        if let Some(gate) = gate {
            let gate = self.graph.unary(Unary::Sigmoid, gate)?;
            attended = self.graph.add(Binary::Mul, &[attended, gate])?;
        }
        let mut value_dim = spec.cached_heads(layer).value_dim;
        if let Some(latent) = spec.latent {
            attended = self.latent_values(layer, attended, latent)?;
            value_dim = latent.value_dim;
        }
        let name = self.layer_name(&self.names.o, layer);
        let width = u64::from(spec.heads) * u64::from(value_dim);
        let out = self.whole_linear(attended, name, [spec.hidden_size, width])?;
        let [out] = self.with_adapters(LoraGroup::O, layer, attended, [out])?;
        Ok(out)
    }

    /// Adds the projections of queries, keys and values, their norms and their rotation. Returns them and
    /// the gate of attention's output, if there is one.
    fn rotated_qkv(
        &mut self,
        layer: usize,
        x: ValueId,
        inputs: &BlockInputs,
    ) -> Result<([ValueId; 3], Option<ValueId>), DecoderError> {
        let (spec, settings) = (self.spec, self.spec.layers[layer]);
        let [heads, kv] = self.head_specs(layer);
        let hidden = spec.hidden_size;
        let [q, k, v] = self.qkv(layer);
        let q = self.linear(x, &q, hidden)?;
        let k = self.linear(x, &k, hidden)?;
        let v = match settings.values_are_keys {
            true => k,
            false => self.linear(x, &v, hidden)?,
        };
        let [mut q, mut k, mut v] = self.with_adapters(LoraGroup::Qkv, layer, x, [q, k, v])?;
        if spec.v_norm {
            v = self.unweighted_norm(v, kv.head_dim.into())?;
        }
        let gate = match spec.attention_gate {
            true => {
                let gate = self.head_part(heads, q, 1)?;
                q = self.head_part(heads, q, 0)?;
                Some(gate)
            }
            false => None,
        };
        let cols = |heads: HeadSpec, after_rope: bool| match spec.qk_norm {
            QkNorm::UnweightedPerRotatedHead if after_rope && settings.rope.is_some() => {
                Some(u64::from(heads.head_dim))
            }
            QkNorm::PerHead if !after_rope => Some(u64::from(heads.head_dim)),
            QkNorm::AllHeads if !after_rope => Some(heads.width()),
            QkNorm::PerRotatedHead if after_rope => Some(u64::from(heads.head_dim)),
            _ => None,
        };
        [q, k] = self.qk_norms(layer, [q, k], [heads, kv].map(|heads| cols(heads, false)))?;
        let k_dim = settings.rope.map_or(0, |rope| spec.rotated(rope));
        // Queries that are scaled where they do not rotate go through a table of rotations by no angle.
        let q_dim = match spec.query_scaling {
            Some(scaling) if !scaling.rotated && settings.rope.is_none() => heads.head_dim,
            _ => k_dim,
        };
        let rope = |heads, rotary_dim| {
            Op::Rope(RopeSpec {
                heads,
                rotary_dim,
                interleaved: spec.rope_interleaved,
            })
        };
        let table = settings.rope.unwrap_or(spec.ropes.len());
        let [q_table, k_table] = [&inputs.query_tables, &inputs.rope_tables].map(|all| all[table]);
        q = self
            .graph
            .add(rope(heads, q_dim), &[q, inputs.index, q_table])?;
        k = self
            .graph
            .add(rope(kv, k_dim), &[k, inputs.index, k_table])?;
        [q, k] = self.qk_norms(layer, [q, k], [heads, kv].map(|heads| cols(heads, true)))?;
        Ok(([q, k, v], gate))
    }

    /// Adds the queries of a layer that reads the keys and values of another one.
    fn rotated_q(
        &mut self,
        layer: usize,
        x: ValueId,
        inputs: &BlockInputs,
    ) -> Result<ValueId, DecoderError> {
        let (spec, settings) = (self.spec, self.spec.layers[layer]);
        let [heads, _] = self.head_specs(layer);
        let name = self.layer_name(&self.names.q, layer);
        let mut q = self.whole_linear(x, name, [heads.width(), spec.hidden_size])?;
        if spec.qk_norm == QkNorm::PerHead {
            let name = self.layer_name(&self.names.q_norm, layer);
            q = self.norm(spec.norm, q, name, heads.head_dim.into())?;
        }
        let rope = Op::Rope(RopeSpec {
            heads,
            rotary_dim: settings.rope.map_or(0, |rope| spec.rotated(rope)),
            interleaved: spec.rope_interleaved,
        });
        let table = inputs.query_tables[settings.rope.unwrap_or(spec.ropes.len())];
        Ok(self.graph.add(rope, &[q, inputs.index, table])?)
    }

    /// Returns a layer's query heads and KV heads.
    fn head_specs(&self, layer: usize) -> [HeadSpec; 2] {
        let HeadSizes { kv_heads, head_dim } = self.spec.head_sizes(layer);
        [self.spec.heads, kv_heads].map(|heads| HeadSpec { heads, head_dim })
    }

    /// Adds the queries (part 0) or gates (part 1) of a projection that makes both for each head.
    fn head_part(
        &mut self,
        heads: HeadSpec,
        x: ValueId,
        part: u64,
    ) -> Result<ValueId, DecoderError> {
        let (heads, head_dim) = (u64::from(heads.heads), u64::from(heads.head_dim));
        let by_head = shape!["tokens", heads, 2 * head_dim];
        let x = self.graph.reshape(x, by_head)?;
        let x = self.graph.slice(x, 2, part * head_dim, head_dim, 1)?;
        Ok(self.graph.reshape(x, shape!["tokens", heads * head_dim])?)
    }

    /// Adds the norms of queries and keys over rows of `cols` elements, where there are any.
    fn qk_norms(
        &mut self,
        layer: usize,
        [q, k]: [ValueId; 2],
        [q_cols, k_cols]: [Option<u64>; 2],
    ) -> Result<[ValueId; 2], DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let mut norm = |x, name: &str, cols| match cols {
            Some(cols) if spec.qk_norm == QkNorm::UnweightedPerRotatedHead => {
                self.unweighted_norm(x, cols)
            }
            Some(cols) => self.norm(spec.norm, x, self.layer_name(name, layer), cols),
            None => Ok(x),
        };
        Ok([
            norm(q, &names.q_norm, q_cols)?,
            norm(k, &names.k_norm, k_cols)?,
        ])
    }

    /// Adds the buffers of a layer's keys and values, `[pages, page_size, kv_heads, words of a head]`: one buffer for both
    /// where the cache has keys only.
    pub fn kv_caches(
        &mut self,
        layer: usize,
        paging: Paging,
        format: CacheFormat,
        suffix: &str,
    ) -> [ValueId; 2] {
        let CachedHeads {
            kv_heads,
            head_dim,
            keys_only,
            ..
        } = self.spec.cached_heads(layer);
        let shape: Shape = shape![
            paging.pages,
            u64::from(paging.page_size),
            u64::from(kv_heads),
            format.head_words(head_dim)
        ];
        let dtype = match format {
            CacheFormat::F32 => DType::F32,
            _ => DType::U32,
        };
        let mut buffer = |name: &str| {
            let name = format!("{name}{suffix}");
            self.graph.buffer(&name, dtype, shape.clone())
        };
        let k = buffer("k");
        match keys_only {
            true => [k, k],
            false => [k, buffer("v")],
        }
    }
}

//! `q, k, v = linear(x)`, perhaps a norm of each head's query and key, rotary embedding of both, and the
//! write to the KV cache: one product with stacked weights, and one kernel for the rest.

use wisp_graph::{
    HeadSpec, NormKind, NormSpec, Op, RopeSpec, ValueId, ValueKind,
    lowering::{LoweringError, OpLowering, Size, params},
    ops::KvWrite,
    runtime_fields,
};
use wisp_shaders::params::RopeKvWriteParams;

use super::{
    stacked::{Projection, private_projection, require_same_operand, stack},
    step::{FusedStep, Fusion, Miss, Step},
};

/// Rotates queries and keys and writes keys and values to the cache, over a stacked product.
struct RopeKvWrite {
    /// The stacked product: rows of queries, keys and values.
    qkv: ValueId,
    /// The norm of each head's query and key, if there is one.
    norm: Option<HeadNorm>,
    /// The result: the rotated queries.
    q: ValueId,
    rope: RopeSpec,
    write: KvWrite,
    /// The operands besides the product and the norms' weights, in the kernel's order.
    operands: [ValueId; 5],
}

/// A norm of each head's query and key.
#[derive(Clone, Copy)]
struct HeadNorm {
    spec: NormSpec,
    /// The weights for queries and for keys.
    weights: [ValueId; 2],
}

impl FusedStep for RopeKvWrite {
    fn name(&self) -> &'static str {
        match self.norm {
            Some(_) => "norm_rope_kv_write",
            None => "rope_kv_write",
        }
    }

    fn operands(&self) -> Vec<ValueId> {
        let norms = self.norm.iter().flat_map(|norm| norm.weights);
        [self.qkv]
            .into_iter()
            .chain(self.operands)
            .chain(norms)
            .collect()
    }

    fn lower(&self, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let KvWrite {
            heads: kv,
            page_size,
            format,
        } = self.write;
        let heads = self.rope.heads.heads;
        let tokens = op.rows(self.q);
        let page_table = self.operands[2];
        let max_pages = op.size(&op.dims(page_table)[1..]);
        let mut bindings = vec![op.operand(self.qkv)?, op.result(self.q)];
        bindings.extend(op.operands(&self.operands)?);
        if let Some(norm) = self.norm {
            bindings.push(op.vector(&norm.weights));
        }
        let fixed = RopeKvWriteParams {
            heads,
            kv_heads: kv.heads,
            head_dim: kv.head_dim,
            rotary_dim: self.rope.rotary_dim,
            interleaved: self.rope.interleaved.into(),
            page_size,
            eps: self.norm.map_or(0.0, |norm| norm.spec.eps),
            weight_offset: self.norm.map_or(0.0, |norm| norm.spec.weight_offset),
            ..Default::default()
        };
        let params = params(
            &fixed,
            runtime_fields!(RopeKvWriteParams, tokens = tokens, max_pages = max_pages),
        );
        let all_heads = u64::from(heads) + 2 * u64::from(kv.heads);
        let units = all_heads * format.head_units(kv.head_dim);
        op.call(
            format.op(op.op()),
            [Size::fixed(units), tokens],
            params,
            bindings,
        )
    }
}

/// The linear layer whose result a rope reads, and the norm of each head between them.
#[derive(Clone, Copy)]
struct RotatedProjection {
    norm: Option<usize>,
    layer: Projection,
}

fn rotated_projection(
    fusion: &Fusion<'_>,
    rope: usize,
    heads: HeadSpec,
) -> Result<RotatedProjection, Miss> {
    let x = fusion.nodes[rope].inputs[0];
    let norm = match private_projection(fusion, x, rope) {
        Ok(layer) => return Ok(RotatedProjection { norm: None, layer }),
        Err(Miss::Absent) => fusion.uses.producer(x).ok_or(NOT_LINEAR)?,
        Err(unfit) => return Err(unfit),
    };
    let node = &fusion.nodes[norm];
    let (Op::Norm(spec), &[before, weight]) = (node.op, node.inputs.as_slice()) else {
        return Err(NOT_LINEAR);
    };
    let per_head = fusion.graph.value(weight).shape.cols() == Some(heads.head_dim.into());
    let private = fusion.uses.only_reader(x) == Some(rope);
    let fits = spec.kind == NormKind::Rms && private && per_head;
    Miss::unless(
        fits,
        "its queries or keys have another norm than one of each head",
    )?;
    let layer = private_projection(fusion, before, norm)?;
    let norm = Some(norm);
    Ok(RotatedProjection { norm, layer })
}

/// The miss of rotary embedding or of a write whose operands are no products.
const NOT_LINEAR: Miss =
    Miss::Unfit("its queries, keys or values are not the products of linear layers");

/// Returns the norm of each head if queries and keys have the same one, or no norm if neither has one.
fn common_norm(
    fusion: &Fusion<'_>,
    q: RotatedProjection,
    k: RotatedProjection,
) -> Option<Option<HeadNorm>> {
    let nodes = fusion.nodes;
    match (q.norm, k.norm) {
        (None, None) => Some(None),
        (Some(q), Some(k)) if nodes[q].op == nodes[k].op => match nodes[q].op {
            Op::Norm(spec) => Some(Some(HeadNorm {
                spec,
                weights: [q, k].map(|node| nodes[node].inputs[1]),
            })),
            _ => None,
        },
        _ => None,
    }
}

/// True if the weights of norms are tensors of the checkpoint, which the step reads as one vector.
fn has_weights(fusion: &Fusion<'_>, norm: Option<HeadNorm>) -> bool {
    let mut weights = norm.iter().flat_map(|norm| norm.weights);
    weights.all(|id| matches!(fusion.graph.value(id).kind, ValueKind::Weight(_)))
}

/// Fuses the write to the cache at a node with the ropes and linear layers before it.
pub(super) fn fuse(fusion: &mut Fusion<'_>, at: usize) -> Result<(), Miss> {
    let (nodes, uses) = (fusion.nodes, &fusion.uses);
    let Op::KvWrite(write) = nodes[at].op else {
        return Err(Miss::Absent);
    };
    let &[k_rotated, v, index, page_table, k_cache, v_cache] = nodes[at].inputs.as_slice() else {
        return Err(Miss::Absent);
    };
    let not_rotated = Miss::Unfit("its keys have no rotary embedding");
    let k_rope = uses.producer(k_rotated).ok_or(not_rotated)?;
    let Op::Rope(k_spec) = nodes[k_rope].op else {
        return Err(not_rotated);
    };
    // The step rotates each token by the position to which it writes.
    let same_index = nodes[k_rope].inputs[1] == index;
    Miss::unless(
        same_index,
        "its keys are rotated by other positions than they are written to",
    )?;
    let private = uses.only_reader(k_rotated) == Some(at);
    Miss::unless(private, "something else reads the rotated keys")?;
    let k = rotated_projection(fusion, k_rope, write.heads)?;
    let v = private_projection(fusion, v, at).map_err(|miss| match miss {
        Miss::Absent => NOT_LINEAR,
        unfit => unfit,
    })?;
    let (q_rope, q_spec) = query_rope(fusion, at, k_rope)
        .ok_or(Miss::Unfit("its queries are not rotated as the keys are"))?;
    let q = rotated_projection(fusion, q_rope, q_spec.heads)?;
    let norm = common_norm(fusion, q, k)
        .ok_or(Miss::Unfit("its queries and keys have different norms"))?;
    Miss::unless(
        has_weights(fusion, norm),
        "the weights of its norms are not the checkpoint's",
    )?;
    let layers = [q.layer, k.layer, v];
    let xs = layers.map(|layer| nodes[layer.linear].inputs[0]);
    let same_x = xs.iter().all(|x| *x == xs[0]);
    Miss::unless(same_x, "its linear layers read different values")?;
    require_same_operand(fusion, &layers)?;
    let mut turns = nodes[k_rope].inputs[1..].iter();
    Miss::unless(
        turns.all(|id| fusion.is_same(*id, q_rope.min(k_rope), at)),
        "something may write the positions or the table of its rotations before the write",
    )?;
    let same_heads = (q_spec.rotary_dim, q_spec.interleaved)
        == (k_spec.rotary_dim, k_spec.interleaved)
        && q_spec.heads.head_dim == write.heads.head_dim
        && k_spec.heads == write.heads;
    // The step makes the queries where the cache is written: nothing may read them before.
    let q_rotated = nodes[q_rope].outputs[0];
    let q_readers = uses.readers(q_rotated);
    let read_later = !q_readers.is_empty() && q_readers.iter().all(|reader| *reader > at);
    Miss::unless(
        same_heads,
        "its queries and keys have different heads or rotations",
    )?;
    Miss::unless(read_later, "something reads the queries before the write")?;

    let (steps, mut replaced) = stack(fusion, &layers)?;
    replaced.extend([q_rope, k_rope]);
    replaced.extend(q.norm.into_iter().chain(k.norm));
    let is_free = replaced.iter().all(|node| fusion.replaced[*node].is_none());
    Miss::unless(is_free, "its queries are fused with another write")?;
    let table = nodes[k_rope].inputs[2];
    let step = RopeKvWrite {
        qkv: nodes[q.layer.linear].outputs[0],
        norm,
        q: q_rotated,
        rope: q_spec,
        write,
        operands: [index, table, page_table, k_cache, v_cache],
    };
    fusion.replace_first(steps, replaced);
    fusion.replace(at, vec![Step::Fused(Box::new(step))], []);
    Ok(())
}

/// Returns the rope of the queries before a write to the cache: the last other one with the index and table
/// of the keys' rope.
fn query_rope(fusion: &Fusion<'_>, at: usize, k_rope: usize) -> Option<(usize, RopeSpec)> {
    let nodes = fusion.nodes;
    (0..at).rev().find_map(|i| match nodes[i].op {
        Op::Rope(spec) if i != k_rope && nodes[i].inputs[1..] == nodes[k_rope].inputs[1..] => {
            Some((i, spec))
        }
        _ => None,
    })
}

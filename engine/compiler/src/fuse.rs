//! Fusion: fewer, larger steps, each of which is one kernel.
//!
//! Three patterns, all of a transformer block:
//! - `q, k, v = linear(x)`, perhaps a norm of each head's q and k, rotate, write the cache: one
//!   product with stacked weights and one kernel that does the rest;
//! - `activation(linear(x)) * linear(x)`: one product with stacked weights, then the gate;
//! - `norm(a + b)`: one kernel that adds in place and normalises.
//!
//! What low-rank adapters add to the products of the first two is added to the stacked product.

use std::collections::HashMap;

use wisp_graph::{
    Binary, CacheFormat, Graph, HeadSpec, Node, NormKind, NormSpec, Op, RopeSpec, ValueId,
    ValueKind,
    ops::{KvWrite, Linear, ScaledAdd},
};

/// A step of the fused graph.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// A node as it is.
    Plain(Node),
    /// One product of `x` with the stacked rows of several weights; the result takes the place
    /// (and the slot) of `out`, the first product's result.
    Stacked {
        x: ValueId,
        parts: Vec<Part>,
        out: ValueId,
    },
    /// `rope` of q and k and `kv_write` over a stacked product.
    RopeKvWrite {
        qkv: ValueId,
        norm: Option<HeadNorm>,
        q: ValueId,
        heads: HeadSpec,
        kv: HeadSpec,
        rope: RopeSpec,
        page_size: u32,
        format: CacheFormat,
        operands: [ValueId; 5],
    },
    /// What adapters add to a stacked product, in place.
    LoraStacked(Node),
    /// The gate over a stacked product.
    GatedStacked { stacked: ValueId, node: Node },
    /// `sum = a + scale * b` in place of `a`, `out = norm(sum)`.
    AddNorm {
        a: ValueId,
        b: ValueId,
        scale: f32,
        sum: ValueId,
        norm: NormSpec,
        /// The norm's weight and bias.
        weights: Part,
        out: ValueId,
    },
}

/// A norm of each head's query and key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HeadNorm {
    pub spec: NormSpec,
    /// The weights for queries and for keys.
    pub weights: [ValueId; 2],
}

/// A weight of a stacked product with its bias.
pub(super) type Part = (ValueId, Option<ValueId>);

/// Who makes each value, and who reads it.
struct Uses {
    maker: HashMap<ValueId, usize>,
    readers: HashMap<ValueId, Vec<usize>>,
    outputs: Vec<ValueId>,
}

impl Uses {
    fn of(graph: &Graph) -> Uses {
        let mut maker = HashMap::new();
        let mut readers: HashMap<ValueId, Vec<usize>> = HashMap::new();
        for (i, node) in graph.nodes().iter().enumerate() {
            maker.extend(node.outputs.iter().map(|id| (*id, i)));
            for id in &node.inputs {
                readers.entry(*id).or_default().push(i);
                // Who reads a view reads what it is of.
                if graph.storage(*id) != *id {
                    readers.entry(graph.storage(*id)).or_default().push(i);
                }
            }
        }
        Uses {
            maker,
            readers,
            outputs: graph.outputs().map(|(_, id)| graph.storage(id)).collect(),
        }
    }

    /// The one reader of a value that is no output.
    fn only_reader(&self, id: ValueId) -> Option<usize> {
        match self.readers.get(&id).map(Vec::as_slice) {
            Some([reader]) if !self.outputs.contains(&id) => Some(*reader),
            _ => None,
        }
    }

    /// True if `id` is made by a node and nobody reads it after the node at `position`.
    fn dies_at(&self, graph: &Graph, id: ValueId, position: usize) -> bool {
        graph.value(id).kind == ValueKind::Node
            && !self.outputs.contains(&id)
            && self
                .readers
                .get(&id)
                .is_some_and(|readers| readers.iter().all(|reader| *reader <= position))
    }
}

/// A product that one node alone reads, with the adapters' node through which it does, if any, and
/// which of that one's products it is.
#[derive(Clone, Copy)]
struct Projection {
    linear: usize,
    lora: Option<(usize, usize)>,
}

/// The product that `id` is, perhaps with what adapters add, if its only reader is `reader`.
fn private_linear(graph: &Graph, uses: &Uses, id: ValueId, reader: usize) -> Option<Projection> {
    let nodes = graph.nodes();
    let maker = *uses.maker.get(&id)?;
    (uses.only_reader(id)? == reader).then_some(())?;
    if nodes[maker].op == Op::Linear(Linear) {
        let (linear, lora) = (maker, None);
        return Some(Projection { linear, lora });
    }
    let &[x, ..] = nodes[maker].inputs.as_slice() else {
        return None;
    };
    let part = nodes[maker].outputs.iter().position(|out| *out == id)?;
    let product = *lora_products(&nodes[maker])?.get(part)?;
    let linear = *uses.maker.get(&product)?;
    let fits = nodes[linear].op == Op::Linear(Linear)
        && nodes[linear].inputs[0] == x
        && uses.only_reader(product)? == maker;
    let lora = Some((maker, part));
    fits.then_some(Projection { linear, lora })
}

/// The products that adapters add to.
fn lora_products(node: &Node) -> Option<&[ValueId]> {
    match node.op {
        Op::Lora(_) => node.inputs.get(5..),
        _ => None,
    }
}

/// The steps of one product with the stacked weights of several, and of their adapters if they have
/// some; these must be the same node's, of these products in this order and no others.
fn stack(graph: &Graph, parts: &[Projection]) -> Option<(Vec<Step>, Vec<usize>)> {
    let nodes = graph.nodes();
    let first = nodes.get(parts.first()?.linear)?;
    let mut gone: Vec<usize> = parts.iter().map(|part| part.linear).collect();
    let mut steps = vec![Step::Stacked {
        x: first.inputs[0],
        parts: parts.iter().map(|one| part(&nodes[one.linear])).collect(),
        out: first.outputs[0],
    }];
    match parts[0].lora {
        None => parts.iter().all(|part| part.lora.is_none()),
        Some((lora, _)) => {
            gone.push(lora);
            steps.push(Step::LoraStacked(nodes[lora].clone()));
            let in_order = parts
                .iter()
                .enumerate()
                .all(|(i, part)| part.lora == Some((lora, i)));
            in_order && nodes[lora].outputs.len() == parts.len()
        }
    }
    .then_some((steps, gone))
}

/// The product that a rope reads alone, and the norm of each head between them, if there is one.
fn normed_linear(
    graph: &Graph,
    uses: &Uses,
    rope: usize,
    heads: HeadSpec,
) -> Option<(Option<usize>, Projection)> {
    let x = graph.nodes()[rope].inputs[0];
    if let Some(linear) = private_linear(graph, uses, x, rope) {
        return Some((None, linear));
    }
    let norm = *uses.maker.get(&x)?;
    let (Op::Norm(spec), &[before, weight]) = (
        graph.nodes()[norm].op,
        graph.nodes()[norm].inputs.as_slice(),
    ) else {
        return None;
    };
    let fits = spec.kind == NormKind::Rms
        && uses.only_reader(x)? == rope
        && graph.value(weight).shape.cols() == Some(heads.head_dim.into());
    fits.then_some(())?;
    Some((Some(norm), private_linear(graph, uses, before, norm)?))
}

fn part(node: &Node) -> Part {
    (node.inputs[1], node.inputs.get(2).copied())
}

/// What the fusions replace: for each node, nothing (it stays) or the steps that stand in its place.
type Replaced = Vec<Option<Vec<Step>>>;

/// Puts steps in the place of the first of some nodes, and nothing in that of the others.
fn replace(replaced: &mut Replaced, steps: Vec<Step>, gone: impl IntoIterator<Item = usize>) {
    let gone: Vec<usize> = gone.into_iter().collect();
    for node in &gone {
        replaced[*node] = Some(Vec::new());
    }
    if let Some(first) = gone.iter().min() {
        replaced[*first] = Some(steps);
    }
}

fn fuse_attention(graph: &Graph, uses: &Uses, at: usize, replaced: &mut Replaced) -> Option<()> {
    let nodes = graph.nodes();
    let Op::KvWrite(KvWrite {
        heads: kv,
        page_size,
        format,
    }) = nodes[at].op
    else {
        return None;
    };
    let &[k_rot, v, index, page_table, k_cache, v_cache] = nodes[at].inputs.as_slice() else {
        return None;
    };
    let rope_k = *uses.maker.get(&k_rot)?;
    let Op::Rope(k_spec) = nodes[rope_k].op else {
        return None;
    };
    (uses.only_reader(k_rot)? == at).then_some(())?;
    let (k_norm, k_linear) = normed_linear(graph, uses, rope_k, kv)?;
    let v_linear = private_linear(graph, uses, v, at)?;
    let x = nodes[k_linear.linear].inputs[0];
    // The queries: another rope by the same index and table of another product of the same x.
    let rope_q = (0..at).rev().find(|i| {
        *i != rope_k
            && matches!(nodes[*i].op, Op::Rope(_))
            && nodes[*i].inputs[1..] == nodes[rope_k].inputs[1..]
    })?;
    let Op::Rope(q_spec) = nodes[rope_q].op else {
        return None;
    };
    let (q_norm, q_linear) = normed_linear(graph, uses, rope_q, q_spec.heads)?;
    let norm = match (q_norm, k_norm) {
        (None, None) => None,
        (Some(q), Some(k)) if nodes[q].op == nodes[k].op => match nodes[q].op {
            Op::Norm(spec) => Some(HeadNorm {
                spec,
                weights: [q, k].map(|node| nodes[node].inputs[1]),
            }),
            _ => return None,
        },
        _ => return None,
    };
    let same = nodes[q_linear.linear].inputs[0] == x
        && nodes[v_linear.linear].inputs[0] == x
        && (q_spec.rotary_dim, q_spec.interleaved) == (k_spec.rotary_dim, k_spec.interleaved)
        && q_spec.heads.head_dim == kv.head_dim
        && k_spec.heads == kv;
    let q_rot = nodes[rope_q].outputs[0];
    let read_late = uses
        .readers
        .get(&q_rot)
        .is_some_and(|readers| readers.iter().all(|reader| *reader > at));
    (same && read_late).then_some(())?;

    let (steps, gone) = stack(graph, &[q_linear, k_linear, v_linear])?;
    let out = nodes[q_linear.linear].outputs[0];
    let norms = q_norm.into_iter().chain(k_norm);
    replace(
        replaced,
        steps,
        gone.into_iter().chain([rope_q, rope_k]).chain(norms),
    );
    replaced[at] = Some(vec![Step::RopeKvWrite {
        qkv: out,
        norm,
        q: q_rot,
        heads: q_spec.heads,
        kv,
        rope: q_spec,
        page_size,
        format,
        operands: [index, nodes[rope_k].inputs[2], page_table, k_cache, v_cache],
    }]);
    Some(())
}

fn fuse_gate(graph: &Graph, uses: &Uses, at: usize, replaced: &mut Replaced) -> Option<()> {
    let nodes = graph.nodes();
    let Op::Gated(_) = nodes[at].op else {
        return None;
    };
    let &[gate, up] = nodes[at].inputs.as_slice() else {
        return None;
    };
    let (gate_linear, up_linear) = (
        private_linear(graph, uses, gate, at)?,
        private_linear(graph, uses, up, at)?,
    );
    let [x, other] = [gate_linear, up_linear].map(|one| nodes[one.linear].inputs[0]);
    (other == x && gate_linear.linear != up_linear.linear).then_some(())?;
    let (steps, gone) = stack(graph, &[gate_linear, up_linear])?;
    let stacked = nodes[gate_linear.linear].outputs[0];
    replace(replaced, steps, gone);
    replaced[at] = Some(vec![Step::GatedStacked {
        stacked,
        node: nodes[at].clone(),
    }]);
    Some(())
}

fn fuse_norm(graph: &Graph, uses: &Uses, at: usize, replaced: &mut Replaced) -> Option<()> {
    let nodes = graph.nodes();
    let Op::Norm(norm) = nodes[at].op else {
        return None;
    };
    let &[sum, weight, ..] = nodes[at].inputs.as_slice() else {
        return None;
    };
    let add = *uses.maker.get(&sum)?;
    let scale = match nodes[add].op {
        Op::ScaledAdd(ScaledAdd { scale }) => scale,
        Op::Binary(Binary::Add) => 1.0,
        _ => return None,
    };
    let &[a, b] = nodes[add].inputs.as_slice() else {
        return None;
    };
    let is_made = |id: &ValueId| {
        let maker = uses.maker.get(&graph.storage(*id));
        maker.is_none_or(|maker| *maker < add)
    };
    let fits = graph.storage(a) != graph.storage(b)
        && nodes[at].inputs[1..].iter().all(is_made)
        && graph.value(sum).shape.cols() == graph.value(weight).shape.cols()
        && graph.value(a).shape == graph.value(b).shape
        && uses.dies_at(graph, a, add)
        && replaced[add].is_none()
        && uses
            .readers
            .get(&sum)
            .is_some_and(|readers| readers.iter().min() == Some(&at));
    fits.then_some(())?;
    replaced[add] = Some(vec![Step::AddNorm {
        a,
        b,
        scale,
        sum,
        norm,
        weights: part(&nodes[at]),
        out: nodes[at].outputs[0],
    }]);
    replaced[at] = Some(Vec::new());
    Some(())
}

/// The fused steps of a graph, in an order that keeps every read and write of a buffer in place.
pub(super) fn fuse(graph: &Graph) -> Vec<Step> {
    let uses = Uses::of(graph);
    let mut replaced: Replaced = vec![None; graph.nodes().len()];
    for at in 0..graph.nodes().len() {
        let _ = fuse_attention(graph, &uses, at, &mut replaced)
            .or_else(|| fuse_gate(graph, &uses, at, &mut replaced))
            .or_else(|| fuse_norm(graph, &uses, at, &mut replaced));
    }
    let plain = |(node, steps): (&Node, Option<Vec<Step>>)| {
        steps.unwrap_or_else(|| vec![Step::Plain(node.clone())])
    };
    graph.nodes().iter().zip(replaced).flat_map(plain).collect()
}

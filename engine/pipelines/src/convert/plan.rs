//! Which tensors a new file has, and what of the source they are made of.

use std::{collections::HashSet, ops::Range};

use super::{ConvertError, form::Form};
use crate::{
    DecoderSpec,
    model_files::ModelFiles,
    spec::{GGUF, NormPlacement, QkvLayout, TensorNames},
};
use wisp_weights::{Checkpoint, TensorInfo, View, Views, WeightError, WeightSource};

/// A tensor of the new file.
pub(super) struct Planned {
    /// Its name there.
    pub name: String,
    /// The tensor or view that it is made of.
    pub source: String,
    /// Its shape, outermost dimension first.
    pub shape: Vec<u64>,
    /// Every element has 1 added.
    pub add_one: bool,
}

/// All tensors as they are, of those that a rule takes.
pub(super) fn same(
    checkpoint: &Checkpoint,
    mut takes: impl FnMut(&TensorInfo) -> bool,
) -> Vec<Planned> {
    let tensors = checkpoint.tensors().iter();
    tensors
        .filter(|tensor| takes(tensor))
        .map(|tensor| Planned {
            name: tensor.name.clone(),
            source: tensor.name.clone(),
            shape: tensor.shape.clone(),
            add_one: false,
        })
        .collect()
}

/// What is done to a tensor besides its being renamed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    /// 1 is added, if the model's norms do that.
    Norm,
    /// Rows may be permuted; with so many heads.
    Heads(u32),
    /// Rows may be in another order.
    Fused,
    /// There may be one for each expert.
    Experts,
    /// So many rows are left out, which no position has.
    Positions(u64),
}

type Pick = fn(&TensorNames) -> &'static str;

/// The tensors of a block that a model may have.
fn block(spec: &DecoderSpec) -> Vec<(Pick, Kind)> {
    let mut parts: Vec<(Pick, Kind)> = vec![
        (|names| names.q, Kind::Heads(spec.heads)),
        (|names| names.k, Kind::Heads(spec.kv_heads)),
        (|names| names.v, Kind::Plain),
        (|names| names.qkv, Kind::Fused),
        (|names| names.q_norm, Kind::Norm),
        (|names| names.k_norm, Kind::Norm),
        (|names| names.o, Kind::Plain),
        (|names| names.gate, Kind::Plain),
        (|names| names.up, Kind::Plain),
        (|names| names.gate_up, Kind::Plain),
        (|names| names.down, Kind::Plain),
        (|names| names.router, Kind::Plain),
        (|names| names.expert_gate, Kind::Experts),
        (|names| names.expert_up, Kind::Experts),
        (|names| names.expert_down, Kind::Experts),
    ];
    // One name may stand for the norm after attention or the one before the feed-forward.
    if spec.norm_placement != NormPlacement::Post {
        parts.push((|names| names.attention_norm, Kind::Norm));
        parts.push((|names| names.mlp_norm, Kind::Norm));
    }
    if spec.norm_placement != NormPlacement::Pre {
        parts.push((|names| names.attention_post_norm, Kind::Norm));
        parts.push((|names| names.mlp_post_norm, Kind::Norm));
    }
    if spec.norm_placement == NormPlacement::AfterSum {
        parts.push((|names| names.attention_sum_norm, Kind::Norm));
        parts.push((|names| names.mlp_sum_norm, Kind::Norm));
    }
    parts
}

/// The tensors of a checkpoint in Hugging Face's layout under GGUF's names, in GGUF's order of rows.
pub(super) fn renamed(
    form: &Form,
    files: &ModelFiles,
    views: &mut Views<'_>,
    notes: &mut Vec<String>,
) -> Result<Vec<Planned>, ConvertError> {
    let (spec, names) = (&files.model_spec.spec, files.model_spec.names);
    let embedding = |root: &&&str| {
        let name = format!("{root}{}.weight", names.embedding);
        files.checkpoint.find(&name).is_some()
    };
    let root = names.roots.iter().find(embedding).or(names.roots.first());
    let mut plan = Plan {
        form,
        spec,
        names,
        checkpoint: &files.checkpoint,
        views,
        used: HashSet::new(),
        planned: Vec::new(),
    };
    let root = root.copied().unwrap_or_default();
    let with_root = |name: &str| format!("{root}{name}");
    plan.add(
        &with_root(names.embedding),
        GGUF.embedding,
        Kind::Plain,
        false,
    )?;
    if spec.learned_positions {
        let padding = spec.encoder.and_then(|encoder| encoder.padding);
        let unused = padding.map_or(0, |padding| u64::from(padding) + 1);
        let kind = Kind::Positions(unused);
        plan.add(&with_root(names.positions), GGUF.positions, kind, false)?;
    }
    if spec.encoder.is_some() {
        for (from, to) in [
            (names.token_types, GGUF.token_types),
            (names.embedding_norm, GGUF.embedding_norm),
        ] {
            plan.add(&with_root(from), to, Kind::Plain, false)?;
        }
    }
    for layer in 0..spec.layers.len() {
        let layer = layer.to_string();
        for (pick, kind) in block(spec) {
            let [from, to] = [pick(names), pick(&GGUF)].map(|name| name.replacen("{}", &layer, 1));
            if !pick(names).is_empty() {
                plan.add(&with_root(&from), &to, kind, true)?;
            }
        }
    }
    plan.add(
        &with_root(names.final_norm),
        GGUF.final_norm,
        Kind::Norm,
        false,
    )?;
    if !spec.tied {
        plan.add(names.output, GGUF.output, Kind::Plain, false)?;
    }
    let (used, planned) = (plan.used, plan.planned);
    let left = files.checkpoint.tensors().iter();
    let left: Vec<&str> = left
        .map(|tensor| tensor.name.as_str())
        .filter(|name| !used.contains(*name))
        .collect();
    if let Some(first) = left.first() {
        let count = left.len();
        notes.push(format!(
            "{count} tensors that the model does not use are left out, as {first}"
        ));
    }
    Ok(planned)
}

struct Plan<'a, 'v, 'c> {
    form: &'a Form,
    spec: &'a DecoderSpec,
    names: &'a TensorNames,
    checkpoint: &'a Checkpoint,
    views: &'v mut Views<'c>,
    used: HashSet<String>,
    planned: Vec<Planned>,
}

impl Plan<'_, '_, '_> {
    /// Adds weight and bias of a name, those that are there.
    fn add(
        &mut self,
        from: &str,
        to: &str,
        kind: Kind,
        in_block: bool,
    ) -> Result<(), ConvertError> {
        for part in ["weight", "bias"] {
            let (from, to) = (format!("{from}.{part}"), format!("{to}.{part}"));
            if kind == Kind::Experts && from.contains("{}") {
                self.experts(&from, to)?;
            } else if let Some(info) = self.checkpoint.find(&from) {
                let shape = info.shape.clone();
                self.used.insert(from.clone());
                self.one(from, to, shape, kind, in_block)?;
            }
        }
        Ok(())
    }

    fn one(
        &mut self,
        from: String,
        to: String,
        shape: Vec<u64>,
        kind: Kind,
        in_block: bool,
    ) -> Result<(), ConvertError> {
        let rows = shape.first().copied().unwrap_or(0);
        let order = match kind {
            Kind::Heads(heads) if self.form.permuted => interleaved(rows, heads.into()),
            Kind::Fused if self.names.qkv_layout == QkvLayout::PerHead => {
                stacked(rows, self.spec.heads.into())
            }
            Kind::Positions(unused @ 1..) => std::iter::once(unused.min(rows)..rows).collect(),
            _ => Vec::new(),
        };
        let (mut source, mut shape) = (from.clone(), shape);
        if let Some(first) = shape.first_mut()
            && !order.is_empty()
        {
            *first = order.iter().map(|rows| rows.end - rows.start).sum();
        }
        if !order.is_empty() {
            source = format!("{from} in GGUF's order");
            let parts = order.into_iter().map(|rows| (from.clone(), rows));
            self.views
                .add(&source, View::Rows(parts.collect()), &shape)?;
        } else if self.names.transposed && in_block && shape.len() == 2 {
            source = format!("{from} transposed");
            shape.reverse();
            let view = View::Transposed(from, 0..shape[0]);
            self.views.add(&source, view, &shape)?;
        }
        self.planned.push(Planned {
            name: to,
            source,
            shape,
            add_one: kind == Kind::Norm && self.spec.norm.weight_offset == 1.0,
        });
        Ok(())
    }

    /// Stacks the experts' matrices.
    fn experts(&mut self, template: &str, to: String) -> Result<(), ConvertError> {
        let name = |expert: u32| template.replacen("{}", &expert.to_string(), 1);
        let Some(first) = self.checkpoint.find(&name(0)) else {
            return Ok(());
        };
        let &[rows, cols] = first.shape.as_slice() else {
            return Ok(());
        };
        let experts = self.spec.moe.map_or(0, |moe| moe.experts);
        let mut parts: Vec<(String, Range<u64>)> = Vec::new();
        for expert in 0..experts {
            let name = name(expert);
            if self.checkpoint.find(&name).is_none() {
                return Err(WeightError::MissingTensor { name }.into());
            }
            self.used.insert(name.clone());
            parts.push((name, 0..rows));
        }
        let shape = vec![experts.into(), rows, cols];
        self.views.add(template, View::Rows(parts), &shape)?;
        self.planned.push(Planned {
            name: to,
            source: template.into(),
            shape,
            add_one: false,
        });
        Ok(())
    }
}

/// Each head's pairs `(i, i + dim / 2)` side by side.
fn interleaved(rows: u64, heads: u64) -> Vec<Range<u64>> {
    let dim = rows / heads.max(1);
    let row = |row: u64| {
        let (head, i) = (row / dim, row % dim);
        head * dim + i % 2 * (dim / 2) + i / 2
    };
    (0..dim * heads).map(row).map(|row| row..row + 1).collect()
}

/// All queries, all keys, all values, of heads that have theirs together.
fn stacked(rows: u64, heads: u64) -> Vec<Range<u64>> {
    let dim = rows / heads.max(1) / 3;
    let parts = (0..3).flat_map(|part| (0..heads).map(move |head| (head * 3 + part) * dim));
    parts.map(|start| start..start + dim).collect()
}

//! The tensors of a checkpoint in Hugging Face's layout, under GGUF's names and in GGUF's order.

use std::{collections::HashSet, ops::Range};

use wisp_weights::{Checkpoint, View, Views, WeightError, WeightSource};

use crate::{
    convert::{error::ConvertError, planned_tensor::PlannedTensor},
    model_files::ModelFiles,
    spec::{
        DecoderSpec, ExpertPart, FusedExperts, NormPlacement, QkvLayout, TensorNames, in_layer,
        row_order,
    },
};

/// How a tensor changes apart from its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    /// A norm: 1 is added to the weights if the model itself adds 1 to them.
    Norm,
    /// A query or key projection with this number of heads: rows are reordered if GGUF interleaves
    /// them.
    Heads(u32),
    /// A fused projection of queries, keys and values: rows may be reordered.
    FusedQkv,
    /// A projection of experts: stacked if the checkpoint has one tensor per expert.
    Experts,
    /// Learned position embeddings: this number of first rows is dropped, because no position uses
    /// them.
    Positions(u64),
}

/// Selects the name of a tensor.
type SelectName = fn(&TensorNames) -> &str;

/// The tensors of a new file, and those of the source that it does not use.
pub(super) struct CopiedTensors {
    pub tensors: Vec<PlannedTensor>,
    pub unused: Vec<String>,
}

/// Plans the tensors of a new file, and adds the views that their data comes from.
///
/// # Errors
///
/// If an expert's tensor is missing.
pub(super) fn copy(
    files: &ModelFiles,
    views: &mut Views<'_>,
) -> Result<CopiedTensors, ConvertError> {
    let model = &files.model_spec;
    let (spec, from, to) = (
        &model.spec,
        model.tensor_names(),
        model.architecture.gguf_names(),
    );
    let checkpoint = &files.checkpoint;
    let mut plan = Plan {
        spec,
        interleaved: model.architecture.interleaves_rope_in_gguf(),
        names: from,
        prefix: from.prefix(|name| checkpoint.find(name).is_some()),
        checkpoint,
        views,
        used: HashSet::new(),
        planned: Vec::new(),
    };
    plan.add(&from.embedding, &to.embedding, Change::None)?;
    if spec.learned_positions {
        let padding = spec.encoder.and_then(|encoder| encoder.padding);
        let unused = padding.map_or(0, |padding| u64::from(padding) + 1);
        plan.add(&from.positions, &to.positions, Change::Positions(unused))?;
    }
    if spec.encoder.is_some() {
        plan.add(&from.token_types, &to.token_types, Change::None)?;
        plan.add(&from.embedding_norm, &to.embedding_norm, Change::None)?;
    }
    for layer in 0..spec.layers.len() {
        for (select, change) in block(spec) {
            if !select(from).is_empty() {
                plan.add_in_layer(select(from), select(to), layer, change)?;
            }
        }
        let vectors: [SelectName; 2] = [|names| &names.selection_bias, |names| &names.sinks];
        for select in vectors {
            plan.add_vector(select(from), select(to), layer)?;
        }
        plan.add_fused_experts(to, layer)?;
    }
    plan.add(&from.final_norm, &to.final_norm, Change::Norm)?;
    let score = spec.encoder.and_then(|encoder| encoder.score);
    if score.is_some() {
        plan.add_whole(&from.score_dense, &to.score_dense, Change::None, false)?;
        plan.add_whole(&from.score_norm, &to.score_norm, Change::None, false)?;
        plan.add_whole(&from.score_output, &to.score_output, Change::None, false)?;
    }
    if !spec.tied {
        plan.add_whole(&from.output, &to.output, Change::None, false)?;
    }
    let Plan { used, planned, .. } = plan;
    let names = checkpoint.tensors().iter().map(|tensor| &tensor.name);
    let unused = names.filter(|name| !used.contains(*name));
    Ok(CopiedTensors {
        tensors: planned,
        unused: unused.cloned().collect(),
    })
}

/// Returns the tensors that a block may have, with their changes.
fn block(spec: &DecoderSpec) -> Vec<(SelectName, Change)> {
    let mut parts: Vec<(SelectName, Change)> = vec![
        (|names| &names.q, Change::Heads(spec.heads)),
        (|names| &names.k, Change::Heads(spec.kv_heads)),
        (|names| &names.v, Change::None),
        (|names| &names.qkv, Change::FusedQkv),
        (|names| &names.q_norm, Change::Norm),
        (|names| &names.k_norm, Change::Norm),
        (|names| &names.o, Change::None),
        (|names| &names.conv_in, Change::None),
        (|names| &names.conv, Change::None),
        (|names| &names.conv_out, Change::None),
        (|names| &names.gate, Change::None),
        (|names| &names.up, Change::None),
        (|names| &names.gate_up, Change::None),
        (|names| &names.down, Change::None),
        (|names| &names.router, Change::None),
        (|names| &names.expert_gate, Change::Experts),
        (|names| &names.expert_up, Change::Experts),
        (|names| &names.expert_down, Change::Experts),
        (|names| &names.shared_gate, Change::None),
        (|names| &names.shared_up, Change::None),
        (|names| &names.shared_down, Change::None),
        (|names| &names.shared_router, Change::None),
    ];
    // Some names are those of the norm after attention in one placement and of the norm before the
    // feed-forward in another.
    if spec.norm_placement != NormPlacement::Output {
        parts.push((|names| &names.attention_norm, Change::Norm));
        parts.push((|names| &names.mlp_norm, Change::Norm));
    }
    if spec.norm_placement != NormPlacement::Pre {
        parts.push((|names| &names.attention_output_norm, Change::Norm));
        parts.push((|names| &names.mlp_output_norm, Change::Norm));
    }
    if spec.norm_placement == NormPlacement::PostResidual {
        parts.push((|names| &names.attention_residual_norm, Change::Norm));
        parts.push((|names| &names.mlp_residual_norm, Change::Norm));
    }
    parts
}

struct Plan<'a, 'v, 'c> {
    spec: &'a DecoderSpec,
    /// True if GGUF stores the rows of queries and keys in the order for interleaved rotation.
    interleaved: bool,
    names: &'a TensorNames,
    /// The prefix of all names except the output layer's.
    prefix: &'a str,
    checkpoint: &'a Checkpoint,
    views: &'v mut Views<'c>,
    /// The names of the source's tensors that the new file uses.
    used: HashSet<String>,
    planned: Vec<PlannedTensor>,
}

impl Plan<'_, '_, '_> {
    /// Adds the weight and bias of a name outside the blocks, if they exist.
    fn add(&mut self, from: &str, to: &str, change: Change) -> Result<(), ConvertError> {
        let from = format!("{}{from}", self.prefix);
        self.add_whole(&from, to, change, false)
    }

    /// Adds the weight and bias of a name in a layer's block, if they exist.
    fn add_in_layer(
        &mut self,
        from: &str,
        to: &str,
        layer: usize,
        change: Change,
    ) -> Result<(), ConvertError> {
        let from = format!("{}{}", self.prefix, in_layer(from, layer));
        self.add_whole(&from, &in_layer(to, layer), change, true)
    }

    /// Adds a vector of a complete name in a layer's block, if it exists. Some checkpoints store the bias by
    /// which experts are selected as a matrix of one row.
    fn add_vector(&mut self, from: &str, to: &str, layer: usize) -> Result<(), ConvertError> {
        let name = format!("{}{}", self.prefix, in_layer(from, layer));
        let Some(info) = self.checkpoint.find(&name) else {
            return Ok(());
        };
        let shape = vec![info.shape.iter().product()];
        self.used.insert(name.clone());
        self.add_tensor(name, in_layer(to, layer), shape, Change::None, true)
    }

    /// Adds the projections of a layer's experts that are parts of other tensors.
    fn add_fused_experts(&mut self, to: &TensorNames, layer: usize) -> Result<(), ConvertError> {
        let model = (self.spec, self.names, self.prefix);
        for part in [ExpertPart::Gate, ExpertPart::Up, ExpertPart::Down] {
            let Some(fused) = FusedExperts::find(model, layer, part) else {
                continue;
            };
            let to = in_layer(part.name(to), layer);
            let (tensors, view) = fused.weight(|name| self.checkpoint.find(name).is_some());
            self.used.extend(tensors);
            self.add_view(format!("{to}.weight"), view, &fused.shape)?;
            let (bias, view) = fused.bias();
            if self.checkpoint.find(&bias).is_some() {
                self.used.insert(bias);
                self.add_view(format!("{to}.bias"), view, &fused.shape[..2])?;
            }
        }
        Ok(())
    }

    /// Adds a view of the source's tensors under its new name.
    fn add_view(&mut self, to: String, view: View, shape: &[u64]) -> Result<(), ConvertError> {
        let source = format!("view {to}");
        self.views.add(&source, view, shape)?;
        self.planned.push(PlannedTensor {
            name: to,
            source,
            shape: shape.to_vec(),
            add_one: false,
        });
        Ok(())
    }

    /// Adds the weight and bias of a complete name, if they exist.
    fn add_whole(
        &mut self,
        from: &str,
        to: &str,
        change: Change,
        in_block: bool,
    ) -> Result<(), ConvertError> {
        for part in ["weight", "bias"] {
            let (from, to) = (format!("{from}.{part}"), format!("{to}.{part}"));
            if change == Change::Experts && from.contains("{}") {
                self.stack_experts(&from, to)?;
            } else if let Some(info) = self.checkpoint.find(&from) {
                let shape = info.shape.clone();
                self.used.insert(from.clone());
                self.add_tensor(from, to, shape, change, in_block)?;
            }
        }
        Ok(())
    }

    fn add_tensor(
        &mut self,
        from: String,
        to: String,
        mut shape: Vec<u64>,
        change: Change,
        in_block: bool,
    ) -> Result<(), ConvertError> {
        let rows = shape.first().copied().unwrap_or(0);
        let mut source = from.clone();
        let order = self.row_order(rows, change);
        if let Some(order) = order.filter(|order| !order.is_empty()) {
            if let Some(first) = shape.first_mut() {
                *first = order.iter().map(|rows| rows.end - rows.start).sum();
            }
            source = format!("{from} in GGUF's order");
            let parts = order.into_iter().map(|rows| (from.clone(), rows));
            let view = View::Rows(parts.collect());
            self.views.add(&source, view, &shape)?;
        } else if self.names.transposed && in_block && shape.len() == 2 {
            source = format!("{from} transposed");
            shape.reverse();
            let view = View::transposed(from, shape[0], 0..shape[0]);
            self.views.add(&source, view, &shape)?;
        }
        self.planned.push(PlannedTensor {
            name: to,
            source,
            shape,
            add_one: change == Change::Norm && self.spec.norm.weight_offset == 1.0,
        });
        Ok(())
    }

    /// Returns the ranges of rows of a tensor in GGUF's order; `None` if the order does not change.
    fn row_order(&self, rows: u64, change: Change) -> Option<Vec<Range<u64>>> {
        match change {
            Change::Heads(heads) if self.interleaved => {
                let head_dim = rows / u64::from(heads.max(1));
                let rows = 0..head_dim * u64::from(heads);
                let row = |row| row_order::half_split_row(row, head_dim);
                Some(rows.map(row).map(|row| row..row + 1).collect())
            }
            Change::FusedQkv if self.names.qkv_layout == QkvLayout::PerHead => {
                let heads = u64::from(self.spec.heads.max(1));
                let head_dim = rows / heads / 3;
                let rows_of = move |part| {
                    (0..heads).map(move |head| row_order::per_head_rows(head, part, head_dim))
                };
                Some((0..3).flat_map(rows_of).collect())
            }
            Change::Positions(unused @ 1..) => {
                Some(std::iter::once(unused.min(rows)..rows).collect())
            }
            _ => None,
        }
    }

    /// Stacks the matrices of a layer's experts into one tensor.
    fn stack_experts(&mut self, template: &str, to: String) -> Result<(), ConvertError> {
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
        self.planned.push(PlannedTensor {
            name: to,
            source: template.into(),
            shape,
            add_one: false,
        });
        Ok(())
    }
}

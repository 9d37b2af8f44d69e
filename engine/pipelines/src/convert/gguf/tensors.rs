//! The tensors of a checkpoint in Hugging Face's layout, under GGUF's names and in GGUF's order.

mod recurrent;
mod residual;

use std::{collections::HashSet, ops::Range};

use wisp_weights::{Checkpoint, View, Views, WeightError, WeightSource};

use crate::{
    convert::{
        error::ConvertError,
        gguf::{
            factors::Scaled,
            parts::{Change, VECTORS, block},
        },
        planned_tensor::{PlannedTensor, ValueChange},
    },
    model_files::ModelFiles,
    spec::{
        DecoderSpec, DeltaNetSpec, ExpertPart, FeedForward, FusedExperts, Mixer, QkvLayout,
        TensorNames, in_layer, row_order,
    },
};

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
        layer: 0,
        scaled: model.architecture.scales_weights_in_gguf(),
        tiled: model.architecture.tiles_values_in_gguf(),
        interleaved: model.architecture.interleaves_rope_in_gguf(),
        bare_mlp_norm: to.bare_mlp_norm,
        names: from,
        prefix: from.prefix(|name| checkpoint.find(name).is_some()),
        checkpoint,
        views,
        used: HashSet::new(),
        planned: Vec::new(),
    };
    plan.add(
        &from.embedding,
        &to.embedding,
        Change::Scaled(Scaled::Embedding),
    )?;
    if spec.learned_positions {
        let padding = spec.encoder.and_then(|encoder| encoder.padding);
        let unused = padding.map_or(0, |padding| u64::from(padding) + 1);
        plan.add(&from.positions, &to.positions, Change::Positions(unused))?;
    }
    if spec.encoder.is_some() {
        plan.add(&from.token_types, &to.token_types, Change::None)?;
        plan.add(&from.embedding_norm, &to.embedding_norm, Change::None)?;
    }
    plan.add_residual_parts(to)?;
    for layer in 0..spec.layers.len() {
        plan.add_layer(to, layer)?;
    }
    plan.add(&from.final_norm, &to.final_norm, Change::Norm)?;
    let score = spec.encoder.and_then(|encoder| encoder.score);
    if score.is_some() {
        plan.add_whole(&from.score_dense, &to.score_dense, Change::None, false)?;
        plan.add_whole(&from.score_norm, &to.score_norm, Change::None, false)?;
        plan.add_whole(&from.score_output, &to.score_output, Change::None, false)?;
    }
    let scaled = Change::Scaled(Scaled::Output);
    let factors = [spec.embedding_multiplier, spec.logit_multiplier];
    if !spec.tied {
        plan.add_whole(&from.output, &to.output, scaled, false)?;
    } else if plan.scaled && factors[0] != factors[1] {
        plan.add(&from.embedding, &to.output, scaled)?;
    }
    let Plan { used, planned, .. } = plan;
    let names = checkpoint.tensors().iter().map(|tensor| &tensor.name);
    let unused = names.filter(|name| !used.contains(*name));
    Ok(CopiedTensors {
        tensors: planned,
        unused: unused.cloned().collect(),
    })
}

struct Plan<'a, 'v, 'c> {
    spec: &'a DecoderSpec,
    /// The layer whose tensors are planned.
    layer: usize,
    /// True if weights are multiplied by the model's factors.
    scaled: bool,
    /// True if GGUF tiles the values of delta nets.
    tiled: bool,
    /// True if GGUF stores the rows of queries and keys in the order for interleaved rotation.
    interleaved: bool,
    /// True if GGUF calls the norm before the feed-forward network without `.weight`.
    bare_mlp_norm: bool,
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
    /// Adds the tensors of a layer.
    fn add_layer(&mut self, to: &TensorNames, layer: usize) -> Result<(), ConvertError> {
        let (spec, from) = (self.spec, self.names);
        self.layer = layer;
        for (select, change) in block(spec, layer) {
            if !select(from).is_empty() {
                self.add_in_layer(select(from), select(to), layer, change)?;
            }
        }
        for select in VECTORS {
            self.add_vector(select(from), select(to), layer, ValueChange::None)?;
        }
        // A fused projection stays one where single ones have names as well, or where GGUF has one too.
        if !from.gate.is_empty() || to.gate.is_empty() {
            self.add_in_layer(&from.gate_up, &to.gate_up, layer, Change::None)?;
        }
        self.add_recurrent_vectors(to, layer)?;
        self.add_fused_experts(to, layer)?;
        self.add_split_gates(to, layer)?;
        self.add_fused_delta_net(to, layer)
    }

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
    fn add_vector(
        &mut self,
        from: &str,
        to: &str,
        layer: usize,
        change: ValueChange,
    ) -> Result<(), ConvertError> {
        let name = format!("{}{}", self.prefix, in_layer(from, layer));
        let Some(info) = self.checkpoint.find(&name) else {
            return Ok(());
        };
        let shape = vec![info.shape.iter().product()];
        self.used.insert(name.clone());
        self.add_tensor(name, in_layer(to, layer), shape, Change::None, true)?;
        self.change_last(change);
        Ok(())
    }

    /// Sets how the values of the tensor change that was planned last.
    fn change_last(&mut self, change: ValueChange) {
        if let Some(planned) = self.planned.last_mut() {
            planned.change = change;
        }
    }

    /// Adds the two halves of fused gate and up projections, of which the format has two tensors for such models.
    fn add_split_gates(&mut self, to: &TensorNames, layer: usize) -> Result<(), ConvertError> {
        let (spec, from) = (self.spec, self.names);
        let shared = spec.moe.and_then(|moe| moe.shared);
        let has = |kind| {
            spec.layers
                .get(layer)
                .is_some_and(|layer| layer.feed_forward == kind)
        };
        let (fused, to, inner) = match shared {
            Some(shared) if has(FeedForward::Experts) && from.shared_gate.is_empty() => (
                &from.shared_gate_up,
                [&to.shared_gate, &to.shared_up],
                shared.intermediate_size,
            ),
            _ if has(FeedForward::Dense) && from.gate.is_empty() && !to.gate.is_empty() => {
                (&from.gate_up, [&to.gate, &to.up], spec.intermediate_size)
            }
            _ => return Ok(()),
        };
        let name = format!("{}{}.weight", self.prefix, in_layer(fused, layer));
        if !self.exists(&name) {
            return Ok(());
        }
        self.used.insert(name.clone());
        for (to, rows) in to.into_iter().zip([0..inner, inner..2 * inner]) {
            let view = View::Rows(vec![(name.clone(), rows)]);
            let to = format!("{}.weight", in_layer(to, layer));
            self.add_view(to, view, &[inner, spec.hidden_size])?;
        }
        Ok(())
    }

    /// Adds the projections of a layer's experts that are parts of other tensors.
    fn add_fused_experts(&mut self, to: &TensorNames, layer: usize) -> Result<(), ConvertError> {
        let model = (self.spec, self.names, self.prefix);
        let settings = self.spec.layers.get(layer);
        if !settings.is_some_and(|layer| layer.feed_forward.has_experts()) {
            return Ok(());
        }
        for part in [ExpertPart::Gate, ExpertPart::Up, ExpertPart::Down] {
            let shape_of = |name: &str| Some(self.checkpoint.find(name)?.shape.clone());
            let Some(fused) = FusedExperts::find(model, layer, part, shape_of) else {
                continue;
            };
            let to = in_layer(part.name(to), layer);
            let weight = format!("{to}.weight");
            // Down projections may be a whole tensor of their own.
            if self.planned.iter().any(|planned| planned.name == weight) {
                continue;
            }
            let (tensors, view) = fused.weight(|name| self.exists(name));
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

    /// True if the source has a tensor of this whole name.
    fn exists(&self, name: &str) -> bool {
        self.checkpoint.find(name).is_some()
    }

    /// Adds a view of the source's tensors under its new name.
    fn add_view(&mut self, to: String, view: View, shape: &[u64]) -> Result<(), ConvertError> {
        let source = format!("view {to}");
        self.views.add(&source, view, shape)?;
        self.planned.push(PlannedTensor {
            name: to,
            source,
            shape: shape.to_vec(),
            change: ValueChange::None,
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
                let experts = self.spec.moe.map_or(0, |moe| moe.experts);
                self.stack(&from, experts, to)?;
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
            change: ValueChange::None,
        });
        let is_bias = self
            .planned
            .last()
            .is_some_and(|planned| planned.name.ends_with(".bias"));
        let change = self.value_change(change, is_bias);
        self.change_last(change);
        self.shape_last();
        Ok(())
    }

    /// Returns how the values of a tensor of the present layer change.
    fn value_change(&self, change: Change, is_bias: bool) -> ValueChange {
        match change {
            Change::Norm if self.spec.norm.weight_offset == 1.0 => ValueChange::AddOne,
            Change::Scaled(part) | Change::ScaledHeads(_, part) if self.scaled => {
                let factors = part.factors(self.spec, self.layer, is_bias);
                match factors.iter().all(|(_, factor)| *factor == 1.0) {
                    true => ValueChange::None,
                    false => ValueChange::Scale(factors),
                }
            }
            Change::ValueColumns if self.tiled => match self.delta_net() {
                Some(net) => {
                    let per_key = net.v_heads / net.k_heads.max(1);
                    let sizes = [net.k_heads, per_key, net.v_dim];
                    ValueChange::SwapColumns(sizes.map(|size| size as usize))
                }
                None => ValueChange::None,
            },
            _ => ValueChange::None,
        }
    }

    /// Returns the delta net of the present layer.
    fn delta_net(&self) -> Option<DeltaNetSpec> {
        match self.spec.layers.get(self.layer)?.mixer {
            Mixer::DeltaNet(net) => Some(net),
            _ => None,
        }
    }

    /// Returns the ranges of rows of a tensor in GGUF's order; `None` if the order does not change.
    fn row_order(&self, rows: u64, change: Change) -> Option<Vec<Range<u64>>> {
        match change {
            Change::ScaledHeads(heads, _) if self.interleaved => {
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
            Change::ValueRows(before, size) if self.tiled => {
                let net = self.delta_net()?;
                let values = net.tiled_rows(size).into_iter();
                let values = values.map(|rows| before + rows.start..before + rows.end);
                Some(std::iter::once(0..before).chain(values).collect())
            }
            Change::Positions(unused @ 1..) => {
                Some(std::iter::once(unused.min(rows)..rows).collect())
            }
            _ => None,
        }
    }

    /// Stacks matrices, such as those of a layer's experts, into one tensor.
    fn stack(&mut self, template: &str, count: u32, to: String) -> Result<(), ConvertError> {
        let name = |index: u32| template.replacen("{}", &index.to_string(), 1);
        let Some(first) = self.checkpoint.find(&name(0)) else {
            return Ok(());
        };
        let &[rows, cols] = first.shape.as_slice() else {
            return Ok(());
        };
        let mut parts: Vec<(String, Range<u64>)> = Vec::new();
        for index in 0..count {
            let name = name(index);
            if self.checkpoint.find(&name).is_none() {
                return Err(WeightError::MissingTensor { name }.into());
            }
            self.used.insert(name.clone());
            parts.push((name, 0..rows));
        }
        let shape = vec![count.into(), rows, cols];
        self.views.add(template, View::Rows(parts), &shape)?;
        self.planned.push(PlannedTensor {
            name: to,
            source: template.into(),
            shape,
            change: ValueChange::None,
        });
        Ok(())
    }
}

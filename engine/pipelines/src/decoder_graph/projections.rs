//! Linear projections, whose weights a checkpoint may fuse, stack or transpose.

use std::ops::Range;

use wisp_graph::ValueId;
use wisp_weights::{View, WeightError, WeightSource};

use super::{builder::GraphBuilder, error::DecoderError};
use crate::spec::{ExpertPart, FusedExperts, HeadSizes, QkvLayout, row_order};

/// The rows of a tensor that make up a projection.
pub(super) struct Rows {
    /// The tensor's name, without `.weight`.
    name: String,
    /// The rows, in the order of the projection's outputs.
    ranges: Vec<Range<u64>>,
    /// All rows of the tensor.
    total: u64,
}

impl Rows {
    /// Returns some rows of a tensor of `total` rows, in this order.
    pub fn of(name: String, ranges: Vec<Range<u64>>, total: u64) -> Rows {
        Rows {
            name,
            ranges,
            total,
        }
    }

    fn whole(name: String, rows: u64) -> Rows {
        Rows::part(name, 0..rows, rows)
    }

    fn part(name: String, range: Range<u64>, total: u64) -> Rows {
        Rows::of(name, vec![range], total)
    }

    fn count(&self) -> u64 {
        let lengths = self.ranges.iter().map(|range| range.end - range.start);
        lengths.sum()
    }

    /// True if the projection is the tensor itself, in its own order.
    fn is_whole(&self) -> bool {
        self.ranges.len() == 1 && self.count() == self.total
    }
}

impl GraphBuilder<'_, '_> {
    /// Adds the linear layer `[tokens, cols] -> [tokens, rows]`, with a bias if the checkpoint has
    /// one.
    pub fn linear(&mut self, x: ValueId, rows: &Rows, cols: u64) -> Result<ValueId, DecoderError> {
        let weight = self.rows(format!("{}.weight", rows.name), rows, Some(cols))?;
        let bias = format!("{}.bias", rows.name);
        let bias = match self.has(&bias) {
            true => Some(self.rows(bias, rows, None)?),
            false => None,
        };
        self.product(x, weight, bias)
    }

    /// Adds a linear layer whose weight is a whole tensor `[rows, cols]`.
    pub fn whole_linear(
        &mut self,
        x: ValueId,
        name: String,
        [rows, cols]: [u64; 2],
    ) -> Result<ValueId, DecoderError> {
        self.linear(x, &Rows::whole(name, rows), cols)
    }

    /// Adds some rows of a tensor: the tensor itself, or a view of it. `cols` is `None` for a bias.
    fn rows(
        &mut self,
        name: String,
        rows: &Rows,
        cols: Option<u64>,
    ) -> Result<ValueId, DecoderError> {
        let transposed = self.names.transposed && cols.is_some();
        let shape = |rows: u64| [Some(rows), cols].into_iter().flatten().collect::<Vec<_>>();
        if rows.is_whole() && !transposed {
            return self.weight(name, &shape(rows.total));
        }
        let mut expected = shape(rows.total);
        if transposed {
            expected.reverse();
        }
        let info = self.find(&name)?;
        if info.shape != expected {
            return Err(DecoderError::TensorShape {
                found: info.shape.clone(),
                expected,
                tensor: name,
            });
        }
        let first = rows.ranges.first().cloned().unwrap_or(0..0);
        let view_name = format!("{name}[{}..]", first.start);
        let view = match transposed {
            true => View::transposed(name, rows.total, first),
            false => {
                let parts = rows
                    .ranges
                    .iter()
                    .map(|range| (name.clone(), range.clone()));
                View::Rows(parts.collect())
            }
        };
        let shape = shape(rows.count());
        self.view(view_name, view, &shape)
    }

    /// Adds rows `[rows, cols]` of a whole weight in this order.
    pub fn weight_rows(
        &mut self,
        name: &str,
        ranges: Vec<Range<u64>>,
        [rows, cols]: [u64; 2],
    ) -> Result<ValueId, DecoderError> {
        let name = format!("{name}.weight");
        if ranges.len() == 1 {
            return self.weight(name, &[rows, cols]);
        }
        let parts = ranges.into_iter().map(|range| (name.clone(), range));
        let view = View::Rows(parts.collect());
        self.view(format!("{name}[ordered]"), view, &[rows, cols])
    }

    /// Adds elements of a vector of the whole name in this order.
    pub fn vector_rows(
        &mut self,
        name: String,
        ranges: Vec<Range<u64>>,
        count: u64,
    ) -> Result<ValueId, DecoderError> {
        if ranges.len() == 1 {
            return self.weight(name, &[count]);
        }
        let parts = ranges.into_iter().map(|range| (name.clone(), range));
        let view = View::Rows(parts.collect());
        self.view(format!("{name}[ordered]"), view, &[count])
    }

    /// Adds the linear layer of some of a tensor's rows, of which there are `total`.
    pub fn part_linear(
        &mut self,
        x: ValueId,
        name: &str,
        range: Range<u64>,
        [total, cols]: [u64; 2],
    ) -> Result<ValueId, DecoderError> {
        self.linear(x, &Rows::part(name.into(), range, total), cols)
    }

    /// Adds the linear layer whose weight is made of rows of several tensors of the names without
    /// `.weight`, in this order.
    pub fn stacked_linear(
        &mut self,
        x: ValueId,
        parts: Vec<(String, Range<u64>)>,
        cols: u64,
    ) -> Result<ValueId, DecoderError> {
        let rows = parts.iter().map(|(_, rows)| rows.end - rows.start).sum();
        let parts = parts.into_iter();
        let parts: Vec<_> = parts
            .map(|(name, rows)| (format!("{name}.weight"), rows))
            .collect();
        let first = parts.first().map_or("", |(name, _)| name);
        let view_name = format!("{first}[{rows} rows]");
        self.weights
            .add(&view_name, View::Rows(parts), &[rows, cols])?;
        let weight = self.weight(view_name, &[rows, cols])?;
        self.product(x, weight, None)
    }

    /// True if a projection is part of a fused one: the architecture has no single projection, or
    /// the checkpoint has only the fused one.
    fn is_fused(&self, single: &str, fused: &str, template: &str) -> bool {
        let has = |name: &str| self.has(&format!("{name}.weight"));
        template.is_empty() || !has(single) && has(fused)
    }

    /// Returns the rows of a layer's query, key and value projections.
    pub fn qkv(&self, layer: usize) -> [Rows; 3] {
        let (spec, names) = (self.spec, self.names);
        let HeadSizes { kv_heads, head_dim } = spec.head_sizes(layer);
        let head_dim = u64::from(head_dim);
        let (q, kv) = (spec.query_rows(layer), u64::from(kv_heads) * head_dim);
        let single = self.layer_name(&names.q, layer);
        let fused = self.layer_name(&names.qkv, layer);
        if !self.is_fused(&single, &fused, &names.q) {
            return [
                Rows::whole(single, q),
                Rows::whole(self.layer_name(&names.k, layer), kv),
                Rows::whole(self.layer_name(&names.v, layer), kv),
            ];
        }
        let total = q + 2 * kv;
        match names.qkv_layout {
            QkvLayout::Stacked => {
                [0..q, q..q + kv, q + kv..total].map(|rows| Rows::part(fused.clone(), rows, total))
            }
            QkvLayout::PerHead => [0, 1, 2].map(|part| Rows {
                name: fused.clone(),
                ranges: (0..u64::from(spec.heads))
                    .map(|head| row_order::per_head_rows(head, part, head_dim))
                    .collect(),
                total,
            }),
        }
    }

    /// Returns the rows of a layer's gate and up projections.
    pub fn gate_up(&self, layer: usize) -> [Rows; 2] {
        let (names, inner) = (self.names, self.spec.dense_width(layer));
        let gate = self.layer_name(&names.gate, layer);
        let fused = self.layer_name(&names.gate_up, layer);
        let up = self.layer_name(&names.up, layer);
        // GGUF gives the fused projection the name of the single one.
        let info = self.weights.find(&format!("{up}.weight"));
        let is_single = info.is_some_and(|info| info.shape.first() == Some(&inner));
        if is_single || !self.is_fused(&gate, &fused, &names.gate) {
            return [Rows::whole(gate, inner), Rows::whole(up, inner)];
        }
        [0..inner, inner..2 * inner].map(|rows| Rows::part(fused.clone(), rows, 2 * inner))
    }

    /// Adds the weights `[experts, rows, cols]` of a projection of a layer's experts, and the biases `[experts, rows]`
    /// if the checkpoint has them. It stores them in one tensor, in one for each expert, or fused with others.
    pub fn experts(
        &mut self,
        layer: usize,
        part: ExpertPart,
        shape: [u64; 3],
    ) -> Result<(ValueId, Option<ValueId>), DecoderError> {
        let model = (self.spec, self.names, self.prefix);
        let shape_of = |name: &str| Some(self.weights.find(name)?.shape.clone());
        if let Some(fused) = FusedExperts::find(model, layer, part, shape_of) {
            return self.fused_experts(&fused, part);
        }
        let name = self.layer_name(part.name(self.names), layer);
        if name.contains("{}") {
            return Ok((self.stacked_experts(&name, shape)?, None));
        }
        let weight = self.weight(format!("{name}.weight"), &shape)?;
        let bias = format!("{name}.bias");
        let bias = match self.has(&bias) {
            true => Some(self.weight(bias, &shape[..2])?),
            false => None,
        };
        Ok((weight, bias))
    }

    /// Stacks the weights of experts that have a tensor each.
    fn stacked_experts(&mut self, name: &str, shape: [u64; 3]) -> Result<ValueId, DecoderError> {
        let parts = (0..shape[0])
            .map(|expert| {
                let tensor = format!("{}.weight", name.replacen("{}", &expert.to_string(), 1));
                (tensor, 0..shape[1])
            })
            .collect();
        self.view(format!("{name}.weight"), View::Rows(parts), &shape)
    }

    /// Adds a projection of experts that is a part of a tensor.
    fn fused_experts(
        &mut self,
        fused: &FusedExperts,
        part: ExpertPart,
    ) -> Result<(ValueId, Option<ValueId>), DecoderError> {
        let (_, view) = fused.weight(|name| self.has(name));
        let weight = self.view(format!("{}[{part:?}]", fused.name), view, &fused.shape)?;
        let (name, view) = fused.bias();
        let bias = match self.has(&name) {
            true => Some(self.view(format!("{name}[{part:?}]"), view, &fused.shape[..2])?),
            false => None,
        };
        Ok((weight, bias))
    }

    /// Adds a view of the checkpoint's tensors to the graph.
    pub fn view(
        &mut self,
        name: String,
        view: View,
        shape: &[u64],
    ) -> Result<ValueId, DecoderError> {
        self.weights
            .add(&name, view, shape)
            .map_err(|error| match error {
                WeightError::MissingTensor { name } => DecoderError::MissingTensor(name),
                other => other.into(),
            })?;
        self.weight(name, shape)
    }
}

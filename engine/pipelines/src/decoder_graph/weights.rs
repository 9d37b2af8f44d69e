//! The decoder's weights, found in a checkpoint that may have them in other pieces.

use std::ops::Range;

use super::{error::DecoderError, lora::Loras};
use crate::spec::{DecoderSpec, QkvLayout, TensorNames};
use wisp_graph::{Graph, Map, NormSpec, Op, ValueId, ops::Linear};
use wisp_types::Shape;
use wisp_weights::{View, Views, WeightError, WeightSource};

/// Rows of a tensor that has `total` of them.
pub(super) struct Rows {
    name: String,
    ranges: Vec<Range<u64>>,
    total: u64,
}

impl Rows {
    fn whole(name: String, rows: u64) -> Rows {
        Rows::part(name, 0..rows, rows)
    }

    fn part(name: String, range: Range<u64>, total: u64) -> Rows {
        Rows {
            name,
            ranges: vec![range],
            total,
        }
    }

    fn count(&self) -> u64 {
        self.ranges
            .iter()
            .map(|range| range.end - range.start)
            .sum()
    }

    fn is_whole(&self) -> bool {
        self.count() == self.total
    }
}

/// A graph in the making, and where its weights come from.
pub(super) struct Builder<'a, 'w> {
    pub graph: Graph,
    pub names: &'a TensorNames,
    pub weights: &'a mut Views<'w>,
    pub spec: &'a DecoderSpec,
    pub root: &'static str,
    pub loras: Option<Loras>,
}

impl Builder<'_, '_> {
    fn has(&self, name: &str) -> bool {
        self.weights.find(name).is_some()
    }

    /// A tensor's name in a layer.
    pub fn name(&self, template: &str, layer: usize) -> String {
        let name = template.replacen("{}", &layer.to_string(), 1);
        format!("{}{name}", self.root)
    }

    /// A tensor that must have this shape.
    pub fn weight(&mut self, name: String, shape: &[u64]) -> Result<ValueId, DecoderError> {
        let info = self
            .weights
            .find(&name)
            .ok_or_else(|| DecoderError::MissingTensor(name.clone()))?;
        let fits = info
            .shape
            .iter()
            .filter(|dim| **dim != 1)
            .eq(shape.iter().filter(|dim| **dim != 1));
        if !fits {
            return Err(DecoderError::Spec(format!(
                "{name} has shape {:?}, the configuration says {shape:?}",
                info.shape
            )));
        }
        let encoding = info.encoding()?;
        let shape = Shape(shape.iter().map(|dim| (*dim).into()).collect());
        Ok(self.graph.weight(&name, encoding, shape))
    }

    /// Some rows of a tensor that must have this shape: the tensor itself, or a view of it.
    fn rows(
        &mut self,
        name: String,
        rows: &Rows,
        cols: Option<u64>,
    ) -> Result<ValueId, DecoderError> {
        let transposed = self.names.transposed && cols.is_some();
        let shape = |rows: u64| [Some(rows), cols].into_iter().flatten().collect::<Vec<_>>();
        if rows.is_whole() && rows.ranges.len() == 1 && !transposed {
            return self.weight(name, &shape(rows.total));
        }
        let mut expected = shape(rows.total);
        if transposed {
            expected.reverse();
        }
        let info = self
            .weights
            .find(&name)
            .ok_or_else(|| DecoderError::MissingTensor(name.clone()))?;
        if info.shape != expected {
            return Err(DecoderError::Spec(format!(
                "{name} has shape {:?}, the configuration says {expected:?}",
                info.shape
            )));
        }
        let first = rows.ranges.first().cloned().unwrap_or(0..0);
        let view_name = format!("{name}[{}..]", first.start);
        let view = match transposed {
            true => View::Transposed(name, first),
            false => View::Rows(
                rows.ranges
                    .iter()
                    .map(|range| (name.clone(), range.clone()))
                    .collect(),
            ),
        };
        let shape = shape(rows.count());
        self.weights.add(&view_name, view, &shape)?;
        self.weight(view_name, &shape)
    }

    /// A norm over rows of `cols`, with a bias if the checkpoint has one.
    pub fn norm(
        &mut self,
        norm: NormSpec,
        x: ValueId,
        name: String,
        cols: u64,
    ) -> Result<ValueId, DecoderError> {
        // The first BERT checkpoints call them otherwise.
        let called = |part: &str, before: &str| match format!("{name}.{before}") {
            before if self.has(&before) => before,
            _ => format!("{name}.{part}"),
        };
        let (weight, bias) = (called("weight", "gamma"), called("bias", "beta"));
        let mut operands = vec![x, self.weight(weight, &[cols])?];
        if self.has(&bias) {
            operands.push(self.weight(bias, &[cols])?);
        }
        Ok(self.graph.add(Op::Norm(norm), &operands)?)
    }

    /// `[tokens, cols] -> [tokens, rows]`, with a bias if the checkpoint has one.
    pub fn linear(&mut self, x: ValueId, rows: &Rows, cols: u64) -> Result<ValueId, DecoderError> {
        let weight = self.rows(format!("{}.weight", rows.name), rows, Some(cols))?;
        let mut operands = vec![x, weight];
        let bias = format!("{}.bias", rows.name);
        if self.has(&bias) {
            operands.push(self.rows(bias, rows, None)?);
        }
        Ok(self.graph.add(Linear, &operands)?)
    }

    /// [`Self::linear`] with a whole tensor.
    pub fn whole_linear(
        &mut self,
        x: ValueId,
        name: String,
        [rows, cols]: [u64; 2],
    ) -> Result<ValueId, DecoderError> {
        self.linear(x, &Rows::whole(name, rows), cols)
    }

    /// Whether a tensor is part of another: it has no name, or is not there while the other is.
    fn is_fused(&self, single: &str, fused: &str, template: &str) -> bool {
        let has = |name: &str| self.has(&format!("{name}.weight"));
        template.is_empty() || !has(single) && has(fused)
    }

    /// Where a layer's queries, keys and values are made.
    pub fn qkv(&self, layer: usize) -> [Rows; 3] {
        let (spec, names) = (self.spec, self.names);
        let head_dim = u64::from(spec.head_dim);
        let [q, kv] = [spec.heads, spec.kv_heads].map(|heads| u64::from(heads) * head_dim);
        let single = self.name(names.q, layer);
        let fused = self.name(names.qkv, layer);
        if !self.is_fused(&single, &fused, names.q) {
            let name = |template| self.name(template, layer);
            return [
                Rows::whole(single, q),
                Rows::whole(name(names.k), kv),
                Rows::whole(name(names.v), kv),
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
                    .map(|head| (3 * head + part) * head_dim)
                    .map(|start| start..start + head_dim)
                    .collect(),
                total,
            }),
        }
    }

    /// Where a layer's gate and up projection are made.
    pub fn gate_up(&self, layer: usize) -> [Rows; 2] {
        let (names, ffn) = (self.names, self.spec.intermediate_size);
        let gate = self.name(names.gate, layer);
        let fused = self.name(names.gate_up, layer);
        let up = self.name(names.up, layer);
        // In GGUF the fused projection is called as the single one would be.
        let info = self.weights.find(&format!("{up}.weight"));
        let is_single = info.is_some_and(|info| info.shape.first() == Some(&ffn));
        if is_single || !self.is_fused(&gate, &fused, names.gate) {
            return [Rows::whole(gate, ffn), Rows::whole(up, ffn)];
        }
        [0..ffn, ffn..2 * ffn].map(|rows| Rows::part(fused.clone(), rows, 2 * ffn))
    }

    /// The weights `[experts, rows, cols]` of a layer's experts: one tensor, or one for each.
    pub fn experts(
        &mut self,
        template: &str,
        layer: usize,
        shape: [u64; 3],
    ) -> Result<ValueId, DecoderError> {
        let name = self.name(template, layer);
        if !name.contains("{}") {
            return self.weight(format!("{name}.weight"), &shape);
        }
        let parts = (0..shape[0])
            .map(|expert| {
                let tensor = format!("{}.weight", name.replacen("{}", &expert.to_string(), 1));
                (tensor, 0..shape[1])
            })
            .collect();
        let view_name = format!("{name}.weight");
        self.weights
            .add(&view_name, View::Rows(parts), &shape)
            .map_err(|error| match error {
                WeightError::MissingTensor { name } => DecoderError::MissingTensor(name),
                other => other.into(),
            })?;
        self.weight(view_name, &shape)
    }

    /// A function of each element.
    pub fn map(&mut self, x: ValueId, map: Map) -> Result<ValueId, DecoderError> {
        Ok(self.graph.add(Op::Map(map), &[x])?)
    }
}

//! A graph under construction, and the tensors that it takes from a checkpoint.

use std::{collections::HashMap, ops::Range, sync::Arc};

use wisp_graph::{
    Graph, Map, NormSpec, Op, ValueId,
    ops::{Gather, Linear},
};
use wisp_types::{Encoding, Shape, shape};
use wisp_weights::{ElementFunction, TensorInfo, View, Views, WeightSource};

use super::error::DecoderError;
use crate::spec::{DecoderSpec, LoraLayout, TensorNames, in_layer};

/// A graph under construction, and the tensors that it takes from a checkpoint.
pub(super) struct GraphBuilder<'a, 'w> {
    /// The graph so far.
    pub graph: Graph,
    /// What the checkpoint calls its tensors.
    pub names: &'a TensorNames,
    /// The checkpoint's tensors, and views of parts of them.
    pub weights: &'a mut Views<'w>,
    /// What the graph computes.
    pub spec: &'a DecoderSpec,
    /// The prefix of all names but the output layer's.
    pub prefix: &'a str,
    /// The inputs of low-rank adapters, if the graph has buffers for them.
    pub loras: Option<LoraInputs>,
    /// Values whose columns were put in the order of a weight's.
    pub ordered: HashMap<(ValueId, Arc<[u32]>), ValueId>,
    /// The caches of keys and values that layers so far read.
    pub caches: HashMap<usize, [ValueId; 2]>,
}

/// What the low-rank adapters of every block read.
#[derive(Clone, Copy)]
pub(super) struct LoraInputs {
    /// The size of the buffers.
    pub layout: LoraLayout,
    /// The sequence and position of each token, `u32 [tokens, 2]`.
    pub index: ValueId,
    /// The adapter of each sequence, `u32 [batch]`.
    pub adapters: ValueId,
}

impl GraphBuilder<'_, '_> {
    /// True if the checkpoint has a tensor of this whole name.
    pub fn has(&self, name: &str) -> bool {
        self.weights.find(name).is_some()
    }

    /// Returns a tensor of the checkpoint.
    pub fn find(&self, name: &str) -> Result<&TensorInfo, DecoderError> {
        let info = self.weights.find(name);
        info.ok_or_else(|| DecoderError::MissingTensor(name.into()))
    }

    /// Returns the name of a tensor outside the blocks.
    pub fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Returns the name of a layer's tensor.
    pub fn layer_name(&self, template: &str, layer: usize) -> String {
        self.name(&in_layer(template, layer))
    }

    /// Adds a tensor of the checkpoint to the graph. It must have this shape, but for dimensions of
    /// size 1.
    pub fn weight(&mut self, name: String, shape: &[u64]) -> Result<ValueId, DecoderError> {
        let info = self.find(&name)?;
        let [found, expected] =
            [&info.shape[..], shape].map(|shape| shape.iter().filter(|size| **size != 1));
        if !found.eq(expected) {
            return Err(DecoderError::TensorShape {
                found: info.shape.clone(),
                expected: shape.to_vec(),
                tensor: name,
            });
        }
        let encoding = info.encoding()?;
        let shape = Shape(shape.iter().map(|size| (*size).into()).collect());
        Ok(self.graph.weight(&name, encoding, shape))
    }

    /// Adds the product of `x` with a weight `[rows, cols]`, and a bias if there is one. Where the weight's columns are
    /// in another order than the model's, so are those of `x` first.
    pub fn product(
        &mut self,
        x: ValueId,
        weight: ValueId,
        bias: Option<ValueId>,
    ) -> Result<ValueId, DecoderError> {
        let name = self.graph.value(weight).name.clone();
        let x = self.in_order_of(x, &name)?;
        let operands: Vec<ValueId> = [x, weight].into_iter().chain(bias).collect();
        Ok(self.graph.add(Linear, &operands)?)
    }

    /// Puts the columns of `x` into the order of those of a weight, once for all weights of that order.
    pub fn in_order_of(&mut self, x: ValueId, weight: &str) -> Result<ValueId, DecoderError> {
        let Some(order) = self.weights.column_order(weight) else {
            return Ok(x);
        };
        if let Some(ordered) = self.ordered.get(&(x, order.clone())) {
            return Ok(*ordered);
        }
        let columns = shape![order.len() as u64];
        let columns = self.graph.constant_u32(&order, columns)?;
        let ordered = self.graph.add(Gather { axis: 1 }, &[x, columns])?;
        self.ordered.insert((x, order), ordered);
        Ok(ordered)
    }

    /// Refuses a weight whose columns are in another order than the model's.
    pub fn require_order(&self, weight: ValueId) -> Result<(), DecoderError> {
        let name = &self.graph.value(weight).name;
        match self.weights.column_order(name) {
            None => Ok(()),
            Some(_) => Err(DecoderError::ColumnOrder(name.clone())),
        }
    }

    /// Adds the logarithms of the rates of decays, some `ranges` of a tensor's elements, `count` in all.
    pub fn decays(
        &mut self,
        name: String,
        ranges: Vec<Range<u64>>,
        count: u64,
    ) -> Result<ValueId, DecoderError> {
        let rows: Vec<_> = ranges
            .into_iter()
            .map(|range| (name.clone(), range))
            .collect();
        let view = match self.names.negative_decays {
            true => View::Mapped {
                rows,
                function: ElementFunction::LogOfNegative,
            },
            false if rows.len() == 1 => return self.weight(name, &[count]),
            false => View::Rows(rows),
        };
        self.view(format!("{name}[log]"), view, &[count])
    }

    /// Adds a norm over rows of `cols` elements, with a bias if the checkpoint has one.
    pub fn norm(
        &mut self,
        norm: NormSpec,
        x: ValueId,
        name: String,
        cols: u64,
    ) -> Result<ValueId, DecoderError> {
        // The first BERT checkpoints call weight and bias gamma and beta.
        let either = |part: &str, old: &str| match format!("{name}.{old}") {
            old if self.has(&old) => old,
            // GGUF files of Falcon-H1 leave the suffix of one norm out.
            _ if part == "weight" && self.names.bare_mlp_norm && self.has(&name) => name.clone(),
            _ => format!("{name}.{part}"),
        };
        let (weight, bias) = (either("weight", "gamma"), either("bias", "beta"));
        let mut operands = vec![x, self.weight(weight, &[cols])?];
        if self.has(&bias) {
            operands.push(self.weight(bias, &[cols])?);
        }
        Ok(self.graph.add(Op::Norm(norm), &operands)?)
    }

    /// Adds a norm without a weight over each part of `cols` elements of a row.
    pub fn unweighted_norm(&mut self, x: ValueId, cols: u64) -> Result<ValueId, DecoderError> {
        let norm = NormSpec {
            weight_offset: 0.0,
            ..self.spec.norm
        };
        let ones = self.computed("ones", cols, |range| range.map(|_| 1.0).collect());
        Ok(self.graph.add(Op::Norm(norm), &[x, ones])?)
    }

    /// Adds a vector that is computed when the model is loaded. Vectors of the same name and size are one.
    pub fn computed(
        &mut self,
        name: &str,
        size: u64,
        compute: impl Fn(Range<u64>) -> Vec<f32> + Send + Sync + 'static,
    ) -> ValueId {
        let name = format!("{name}.{size}");
        self.weights.add_computed(&name, &[size], compute);
        self.graph.weight(&name, Encoding::F32, shape![size])
    }

    /// Adds a function of each element.
    pub fn map(&mut self, x: ValueId, map: Map) -> Result<ValueId, DecoderError> {
        Ok(self.graph.add(Op::Map(map), &[x])?)
    }
}

/// Unpacks the results of an op that has exactly `N`.
pub(super) fn outputs<const N: usize>(values: Vec<ValueId>) -> Result<[ValueId; N], DecoderError> {
    let found = values.len();
    values.try_into().map_err(|_| {
        let expected = N;
        DecoderError::Outputs { found, expected }
    })
}

//! Projections of experts that a checkpoint stores fused, stacked or transposed.

use wisp_weights::View;

use super::{
    decoder_spec::DecoderSpec,
    feed_forward::FeedForwardGate,
    tensor_names::{GateUpOrder, TensorNames, in_layer},
};

/// A projection of a layer's experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpertPart {
    /// The input of the activation.
    Gate,
    /// What the activation is multiplied by, or its input if there is no gate.
    Up,
    /// From the inner layer back to the residual stream.
    Down,
}

impl ExpertPart {
    /// Returns the name of the projection, of which `{}` stands for the layer and perhaps the expert.
    pub fn name(self, names: &TensorNames) -> &str {
        match self {
            ExpertPart::Gate => &names.expert_gate,
            ExpertPart::Up => &names.expert_up,
            ExpertPart::Down => &names.expert_down,
        }
    }
}

/// A projection of experts as a part of one tensor, in an order of [`GateUpOrder`].
///
/// A tensor of transposed matrices has the shape `[experts, cols, total]`, or, in MXFP4, two tensors with the endings
/// `_blocks` and `_scales` have the matrices untransposed. The bias has the ending `_bias`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FusedExperts {
    /// The name of the tensor.
    pub name: String,
    /// The projection's weight: `[experts, rows, cols]`.
    pub shape: [u64; 3],
    /// All rows of an expert in the tensor.
    total: u64,
    /// The first row of the projection, and the distance to the next.
    first: u64,
    step: u64,
    /// True if the matrices are stored transposed.
    transposed: bool,
}

impl FusedExperts {
    /// Returns where a checkpoint with such names stores a projection; `None` if it stores it by itself. `shape_of` returns
    /// the shape of a tensor that exists. One that is stored gate by up projection may be transposed or not, as its shape
    /// tells (Qwen 3 VL).
    pub fn find(
        (spec, names, prefix): (&DecoderSpec, &TensorNames, &str),
        layer: usize,
        part: ExpertPart,
        shape_of: impl Fn(&str) -> Option<Vec<u64>>,
    ) -> Option<FusedExperts> {
        let exists = |name: &str| shape_of(name).is_some();
        let moe = spec.moe?;
        let single = in_layer(part.name(names), layer);
        let is_gate_up = part != ExpertPart::Down && spec.gate == FeedForwardGate::Projected;
        let inner = moe.intermediate_size;
        let mut transposed = names.gate_up_order != GateUpOrder::Rows;
        let (columns, step) = match names.gate_up_order {
            GateUpOrder::Rows | GateUpOrder::Stacked => (inner, 1),
            GateUpOrder::Interleaved => (1, 2),
        };
        let width = moe.latent_size.unwrap_or(spec.hidden_size);
        let (rows, cols) = match part {
            ExpertPart::Gate | ExpertPart::Up => (inner, width),
            ExpertPart::Down => (width, inner),
        };
        let (total, first, step) = match part {
            ExpertPart::Gate if is_gate_up => (2 * rows, 0, step),
            ExpertPart::Up if is_gate_up => (2 * rows, columns, step),
            _ => (rows, 0, 1),
        };
        let name = match is_gate_up {
            true => in_layer(&names.expert_gate_up, layer),
            // One tensor for all experts lacks the number of the expert.
            false => single.replacen(".{}", "", 1),
        };
        let mut name = format!("{prefix}{name}");
        if !transposed {
            let first_expert = single.replacen("{}", "0", 1);
            let weight = format!("{name}.weight");
            name = match [weight, name].into_iter().find(|name| exists(name)) {
                Some(found) if !exists(&format!("{prefix}{first_expert}.weight")) => found,
                Some(found) if names.expert_gate.is_empty() => found,
                _ => return None,
            };
        } else if !names.expert_gate.is_empty() {
            return None;
        }
        let experts = u64::from(moe.experts);
        if let (Some(shape), GateUpOrder::Stacked) = (shape_of(&name), names.gate_up_order) {
            transposed = shape == [experts, cols, total] || shape != [experts, total, cols];
        }
        Some(FusedExperts {
            name,
            shape: [experts, rows, cols],
            total,
            first,
            step,
            transposed,
        })
    }

    /// True if the weight is in MXFP4.
    pub fn is_packed(&self, exists: impl Fn(&str) -> bool) -> bool {
        exists(&self.blocks())
    }

    fn blocks(&self) -> String {
        format!("{}_blocks", self.name)
    }

    /// Returns the tensors of the weight, and a view of it.
    pub fn weight(&self, exists: impl Fn(&str) -> bool) -> (Vec<String>, View) {
        if self.is_packed(exists) {
            let [blocks, scales] = [self.blocks(), format!("{}_scales", self.name)];
            let view = View::Mxfp4 {
                blocks: blocks.clone(),
                scales: scales.clone(),
                first: self.first,
                step: self.step,
            };
            return (vec![blocks, scales], view);
        }
        let [experts, rows, cols] = self.shape;
        let view = match self.transposed {
            true => View::Strided {
                tensor: self.name.clone(),
                offset: self.first,
                strides: vec![cols * self.total, self.step, self.total],
            },
            false => {
                let starts = (0..experts).map(|expert| expert * self.total + self.first);
                let parts = starts.map(|first| (self.name.clone(), first..first + rows));
                View::Rows(parts.collect())
            }
        };
        (vec![self.name.clone()], view)
    }

    /// Returns the name of the bias, and a view of it, `[experts, rows]`.
    pub fn bias(&self) -> (String, View) {
        let name = format!("{}_bias", self.name);
        let view = View::Strided {
            tensor: name.clone(),
            offset: self.first,
            strides: vec![self.total, self.step],
        };
        (name, view)
    }
}

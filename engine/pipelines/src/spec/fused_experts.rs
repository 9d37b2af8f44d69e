//! Projections of experts that a checkpoint stores fused and transposed, as gpt-oss and Llama 4 do.

use wisp_weights::View;

use super::{
    decoder_spec::DecoderSpec,
    tensor_names::{GateUpOrder, TensorNames, in_layer},
};

/// A projection of a layer's experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpertPart {
    /// The input of the activation.
    Gate,
    /// What the activation is multiplied by.
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

/// A projection of experts as a part of stacked, transposed matrices `[experts, cols, total]`.
///
/// A tensor has this shape, or, in MXFP4, two tensors with the endings `_blocks` and `_scales` have the
/// matrices untransposed. The bias has the ending `_bias`.
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
}

impl FusedExperts {
    /// Returns where a checkpoint with such names stores a projection; `None` if it stores it by itself.
    pub fn find(
        (spec, names, prefix): (&DecoderSpec, &TensorNames, &str),
        layer: usize,
        part: ExpertPart,
    ) -> Option<FusedExperts> {
        let moe = spec.moe.filter(|_| names.expert_gate.is_empty())?;
        let (columns, step) = match names.gate_up_order {
            GateUpOrder::Rows => return None,
            GateUpOrder::Stacked => (moe.intermediate_size, 1),
            GateUpOrder::Interleaved => (1, 2),
        };
        let (hidden, inner) = (spec.hidden_size, moe.intermediate_size);
        let (template, rows, cols) = match part {
            ExpertPart::Gate | ExpertPart::Up => (&names.expert_gate_up, inner, hidden),
            ExpertPart::Down => (&names.expert_down, hidden, inner),
        };
        let (total, first, step) = match part {
            ExpertPart::Down => (rows, 0, 1),
            ExpertPart::Gate => (2 * rows, 0, step),
            ExpertPart::Up => (2 * rows, columns, step),
        };
        Some(FusedExperts {
            name: format!("{prefix}{}", in_layer(template, layer)),
            shape: [moe.experts.into(), rows, cols],
            total,
            first,
            step,
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
        let [_, _, cols] = self.shape;
        let view = View::Strided {
            tensor: self.name.clone(),
            offset: self.first,
            strides: vec![cols * self.total, self.step, self.total],
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

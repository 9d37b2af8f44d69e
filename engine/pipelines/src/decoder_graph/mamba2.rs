//! Mamba 2 (Granite 4).

use wisp_graph::{
    Activation, Binary, NormSpec, Op, ValueId,
    ops::{CausalConv, Gated, Mamba2Scan},
};
use wisp_types::{Encoding, shape};

use super::{
    builder::{GraphBuilder, outputs},
    error::DecoderError,
    inputs::BlockInputs,
};
use crate::spec::Mamba2Spec;

impl GraphBuilder<'_, '_> {
    /// Adds a Mamba 2 mixer with its projections, without the norms around it.
    pub fn mamba2(
        &mut self,
        layer: usize,
        mamba: Mamba2Spec,
        x: ValueId,
        inputs: &BlockInputs,
    ) -> Result<ValueId, DecoderError> {
        let (hidden, names) = (self.spec.hidden_size, self.names);
        let (inner, channels, heads) = (mamba.inner(), mamba.channels(), u64::from(mamba.heads));
        let projection = self.layer_name(&names.mamba_in, layer);
        let size = [inner + channels + heads, hidden];
        let steps_start = inner + channels;
        let gate = self.part_linear(x, &projection, 0..inner, size)?;
        let xbc = self.part_linear(x, &projection, inner..steps_start, size)?;
        let steps = self.part_linear(x, &projection, steps_start..steps_start + heads, size)?;
        let spans = inputs.spans()?;
        let [conv_state, state] = outputs(self.states(layer))?;
        let name = self.layer_name(&names.mamba_conv, layer);
        let filters = self.weight(format!("{name}.weight"), &[channels, mamba.width.into()])?;
        let mut operands = vec![xbc, filters, inputs.index, spans, conv_state];
        let bias = format!("{name}.bias");
        if self.has(&bias) {
            operands.push(self.weight(bias, &[channels])?);
        }
        let conv = CausalConv {
            gated: false,
            silu: true,
        };
        let xbc = self.graph.add(conv, &operands)?;
        let mut operands = vec![xbc, steps];
        for template in [&names.mamba_a_log, &names.mamba_step_bias, &names.mamba_d] {
            let name = self.layer_name(template, layer);
            operands.push(self.weight(name, &[heads])?);
        }
        operands.extend([spans, state]);
        let scan = Mamba2Scan {
            groups: mamba.groups,
            heads: mamba.heads,
            state_dim: mamba.state_dim,
            head_dim: mamba.head_dim,
        };
        let read = self.graph.add(scan, &operands)?;
        let activation = Activation::Silu;
        let gated = self.graph.add(Gated { activation }, &[gate, read])?;
        let normed = self.group_norm(layer, mamba, gated)?;
        let name = self.layer_name(&names.mamba_out, layer);
        self.whole_linear(normed, name, [hidden, inner])
    }

    /// Adds the norm of each group's part of a row, whose weight has an element for each of the row's.
    fn group_norm(
        &mut self,
        layer: usize,
        mamba: Mamba2Spec,
        x: ValueId,
    ) -> Result<ValueId, DecoderError> {
        let norm = NormSpec {
            weight_offset: 0.0,
            ..self.spec.norm
        };
        let (inner, groups) = (mamba.inner(), u64::from(mamba.groups));
        let name = self.layer_name(&self.names.mamba_norm, layer);
        if groups == 1 {
            return self.norm(norm, x, name, inner);
        }
        // The op's weight has the size of a part, so that of the row is a product of its own.
        let part = inner / groups;
        let ones = format!("ones.{part}");
        self.weights
            .add_computed(&ones, &[part], |range| range.map(|_| 1.0).collect());
        let ones = self.graph.weight(&ones, Encoding::F32, shape![part]);
        let normed = self.graph.add(Op::Norm(norm), &[x, ones])?;
        let weight = self.weight(format!("{name}.weight"), &[inner])?;
        Ok(self.graph.add(Binary::Mul, &[normed, weight])?)
    }
}

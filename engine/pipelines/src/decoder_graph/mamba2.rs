//! Mamba 2 (Granite 4).

use std::ops::Range;

use wisp_types::shape;

use super::{
    builder::{GraphBuilder, outputs},
    error::DecoderError,
    inputs::BlockInputs,
};
use crate::spec::{Mamba2Norm, Mamba2Spec};
use wisp_graph::{
    Activation, Binary, NormSpec, ValueId,
    ops::{CausalConv, Gated, Mamba2Scan},
};

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
        let [gate, xbc, steps] = self.scaled_parts(mamba, [gate, xbc, steps])?;
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
        let [a_log, step_bias, d] = [&names.mamba_a_log, &names.mamba_step_bias, &names.mamba_d]
            .map(|template| self.layer_name(template, layer));
        let a_log = self.decays(a_log, std::iter::once(0..heads).collect(), heads)?;
        let step_bias = self.weight(step_bias, &[heads])?;
        let d = self.weight(d, &[heads])?;
        let [steps, step_bias] = self.limited_steps(mamba, [steps, step_bias])?;
        let operands = [xbc, steps, a_log, step_bias, d, spans, state];
        let scan = Mamba2Scan {
            groups: mamba.groups,
            heads: mamba.heads,
            state_dim: mamba.state_dim,
            head_dim: mamba.head_dim,
        };
        let read = self.graph.add(scan, &operands)?;
        let activation = Activation::Silu;
        let mut out = read;
        if mamba.norm == Mamba2Norm::BeforeGate {
            out = self.group_norm(layer, mamba, out)?;
        }
        out = self.graph.add(Gated { activation }, &[gate, out])?;
        if mamba.norm == Mamba2Norm::AfterGate {
            out = self.group_norm(layer, mamba, out)?;
        }
        let name = self.layer_name(&names.mamba_out, layer);
        self.whole_linear(out, name, [hidden, inner])
    }

    /// Multiplies gates, what is convolved, and steps by their factors.
    fn scaled_parts(
        &mut self,
        mamba: Mamba2Spec,
        [gate, xbc, steps]: [ValueId; 3],
    ) -> Result<[ValueId; 3], DecoderError> {
        let [on_gate, x, b, c, on_steps] = mamba.multipliers;
        let gate = self.scaled(gate, on_gate)?;
        let steps = self.scaled(steps, on_steps)?;
        if x == b && b == c {
            return Ok([gate, self.scaled(xbc, x)?, steps]);
        }
        let (inner, channels) = (mamba.inner(), mamba.channels());
        let start_of_c = inner.midpoint(channels);
        let factor = move |channel: u64| match channel {
            channel if channel < inner => x,
            channel if channel < start_of_c => b,
            _ => c,
        };
        let compute = move |range: Range<u64>| range.map(factor).collect();
        let factors = self.computed("mamba.multipliers", channels, compute);
        let xbc = self.graph.add(Binary::Mul, &[xbc, factors])?;
        Ok([gate, xbc, steps])
    }

    /// Limits steps to their range. Returns them and their bias, which is 0 if the steps include it: limiting the
    /// softplus of a step is limiting the step by the inverse of the softplus.
    fn limited_steps(
        &mut self,
        mamba: Mamba2Spec,
        [steps, bias]: [ValueId; 2],
    ) -> Result<[ValueId; 2], DecoderError> {
        if mamba.step_limit == Mamba2Spec::ANY_STEP {
            return Ok([steps, bias]);
        }
        let inverse = |step: f32| {
            let step = f64::from(step);
            (step + (-(-step).exp_m1()).ln()) as f32
        };
        let [least, greatest] = mamba.step_limit;
        let mut steps = self.graph.add(Binary::Add, &[steps, bias])?;
        if least > 0.0 {
            let least = self.graph.scalar(inverse(least));
            steps = self.graph.add(Binary::Max, &[steps, least])?;
        }
        if greatest.is_finite() {
            let greatest = self.graph.scalar(inverse(greatest));
            steps = self.graph.add(Binary::Min, &[steps, greatest])?;
        }
        let heads = u64::from(mamba.heads);
        let no_bias = self.computed("mamba.no_bias", heads, |range| range.map(|_| 0.0).collect());
        Ok([steps, no_bias])
    }

    /// Adds the norm of each group's part of a row, whose weight has an element for each of the row's.
    fn group_norm(
        &mut self,
        layer: usize,
        mamba: Mamba2Spec,
        x: ValueId,
    ) -> Result<ValueId, DecoderError> {
        let (inner, groups) = (mamba.inner(), u64::from(mamba.groups));
        let name = self.layer_name(&self.names.mamba_norm, layer);
        if groups == 1 {
            let norm = NormSpec {
                weight_offset: 0.0,
                ..self.spec.norm
            };
            return self.norm(norm, x, name, inner);
        }
        // The op's weight has the size of a part, so that of the row is a product of its own.
        let part = inner / groups;
        let normed = self.unweighted_norm(x, part)?;
        let weight = format!("{name}.weight");
        if self.find(&weight)?.shape == [inner] {
            let weight = self.weight(weight, &[inner])?;
            return Ok(self.graph.add(Binary::Mul, &[normed, weight])?);
        }
        // GGUF stores a row for each group.
        let weight = self.weight(weight, &[groups, part])?;
        let normed = self.graph.reshape(normed, shape!["tokens", groups, part])?;
        let out = self.graph.add(Binary::Mul, &[normed, weight])?;
        Ok(self.graph.reshape(out, shape!["tokens", inner])?)
    }
}

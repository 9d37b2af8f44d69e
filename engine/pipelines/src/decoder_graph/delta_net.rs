//! The gated delta net (Qwen3-Next).

use std::ops::Range;

use wisp_graph::{
    Activation, NormSpec, ValueId,
    ops::{CausalConv, Gated, GatedDeltaRule},
};

use super::{
    builder::{GraphBuilder, outputs},
    error::DecoderError,
    inputs::BlockInputs,
};
use crate::spec::DeltaNetSpec;

/// Added to the sums of squares by which queries and keys are normalized.
const KEY_EPS: f32 = 1e-6;

impl GraphBuilder<'_, '_> {
    /// Adds a gated delta net with its projections, without the norms around it.
    pub fn delta_net(
        &mut self,
        layer: usize,
        net: DeltaNetSpec,
        x: ValueId,
        inputs: &BlockInputs,
    ) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let hidden = spec.hidden_size;
        let [qkv, gate] = self.delta_qkv_and_gate(layer, net, x)?;
        let gates = self.delta_gates(layer, net, x)?;
        let spans = inputs.spans()?;
        let [conv_state, state] = outputs(self.states(layer))?;
        let channels = 2 * net.keys() + net.values();
        let name = format!("{}.weight", self.layer_name(&names.delta_conv, layer));
        let filters = self.weight(name, &[channels, net.width.into()])?;
        let conv = CausalConv {
            gated: false,
            silu: true,
        };
        let operands = [qkv, filters, inputs.index, spans, conv_state];
        let qkv = self.graph.add(conv, &operands)?;
        let [a_log, step_bias] = [&names.delta_a_log, &names.delta_step_bias]
            .map(|template| self.layer_name(template, layer));
        let a_log = self.weight(a_log, &[net.v_heads.into()])?;
        let step_bias = self.weight(step_bias, &[net.v_heads.into()])?;
        let rule = GatedDeltaRule {
            k_heads: net.k_heads,
            v_heads: net.v_heads,
            k_dim: net.k_dim,
            v_dim: net.v_dim,
            eps: KEY_EPS,
        };
        let operands = [qkv, gates, a_log, step_bias, spans, state];
        let read = self.graph.add(rule, &operands)?;
        let norm = NormSpec {
            weight_offset: 0.0,
            ..spec.norm
        };
        let name = self.layer_name(&names.delta_norm, layer);
        let normed = self.norm(norm, read, name, net.v_dim.into())?;
        let activation = Activation::Silu;
        let gated = self.graph.add(Gated { activation }, &[gate, normed])?;
        let name = self.layer_name(&names.delta_out, layer);
        self.whole_linear(gated, name, [hidden, net.values()])
    }

    /// Adds the projections of queries, keys and values together, and of the output gates.
    fn delta_qkv_and_gate(
        &mut self,
        layer: usize,
        net: DeltaNetSpec,
        x: ValueId,
    ) -> Result<[ValueId; 2], DecoderError> {
        let (hidden, names) = (self.spec.hidden_size, self.names);
        let (keys, values) = (net.keys(), net.values());
        let single = self.layer_name(&names.delta_qkv, layer);
        if self.has(&format!("{single}.weight")) {
            let gate = self.layer_name(&names.delta_gate, layer);
            let qkv = self.whole_linear(x, single, [2 * keys + values, hidden])?;
            return Ok([qkv, self.whole_linear(x, gate, [values, hidden])?]);
        }
        let fused = self.layer_name(&names.delta_fused, layer);
        let (k_dim, of_values) = (u64::from(net.k_dim), values / u64::from(net.k_heads));
        let sizes = [k_dim, k_dim, of_values, of_values];
        let [q, k, v, gate] = of_key_heads(&fused, net.k_heads, sizes);
        let qkv = self.stacked_linear(x, [q, k, v].concat(), hidden)?;
        Ok([qkv, self.stacked_linear(x, gate, hidden)?])
    }

    /// Adds the projections of the corrections' logits and of the decay's steps, `[tokens, 2 * v_heads]`.
    fn delta_gates(
        &mut self,
        layer: usize,
        net: DeltaNetSpec,
        x: ValueId,
    ) -> Result<ValueId, DecoderError> {
        let (hidden, names, heads) = (self.spec.hidden_size, self.names, u64::from(net.v_heads));
        let [beta, step, fused] = [
            &names.delta_beta,
            &names.delta_step,
            &names.delta_fused_gates,
        ]
        .map(|template| self.layer_name(template, layer));
        if self.has(&format!("{beta}.weight")) {
            let parts = vec![(beta, 0..heads), (step, 0..heads)];
            return self.stacked_linear(x, parts, hidden);
        }
        let of_heads = heads / u64::from(net.k_heads);
        let [beta, step] = of_key_heads(&fused, net.k_heads, [of_heads; 2]);
        self.stacked_linear(x, [beta, step].concat(), hidden)
    }
}

/// Returns the rows of each part of a projection that stores, for each head of keys, `sizes` rows of each
/// part.
fn of_key_heads<const N: usize>(
    name: &str,
    k_heads: u32,
    sizes: [u64; N],
) -> [Vec<(String, Range<u64>)>; N] {
    let all: u64 = sizes.iter().sum();
    let mut before = 0;
    sizes.map(|size| {
        let offset = before;
        before += size;
        let heads = 0..u64::from(k_heads);
        let rows = heads.map(|head| {
            (
                name.to_string(),
                head * all + offset..head * all + offset + size,
            )
        });
        rows.collect()
    })
}

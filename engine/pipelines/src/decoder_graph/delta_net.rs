//! The gated delta net (Qwen3-Next).

use std::ops::Range;

use wisp_graph::{
    Activation, NormSpec, ValueId,
    ops::{CausalConv, Gated, GatedDeltaRule},
};

use wisp_types::shape;

use super::{
    builder::{GraphBuilder, outputs},
    error::DecoderError,
    inputs::BlockInputs,
    projections::Rows,
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
        let name = self.layer_name(&names.delta_conv, layer);
        let rows = behind_keys(net, net.v_dim.into());
        let filters = self.weight_rows(&name, rows, [channels, net.width.into()])?;
        let conv = CausalConv {
            gated: false,
            silu: true,
        };
        let operands = [qkv, filters, inputs.index, spans, conv_state];
        let qkv = self.graph.add(conv, &operands)?;
        let [a_log, step_bias] = [&names.delta_a_log, &names.delta_step_bias]
            .map(|template| self.layer_name(template, layer));
        let v_heads = u64::from(net.v_heads);
        let a_log = self.decays(a_log, net.value_rows(1), v_heads)?;
        let step_bias = self.vector_rows(step_bias, net.value_rows(1), v_heads)?;
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
        let mut gated = self.graph.add(Gated { activation }, &[gate, normed])?;
        if net.tiled {
            // The columns of the output projection are in the order of the checkpoint.
            let [keys, heads, v_dim] = [net.k_heads, net.v_heads, net.v_dim].map(u64::from);
            let by_key = shape!["tokens", keys, heads / keys, v_dim];
            gated = self.graph.reshape(gated, by_key)?;
            gated = self.graph.permute(gated, &[0, 2, 1, 3])?;
            gated = self.graph.reshape(gated, shape!["tokens", net.values()])?;
        }
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
            let rows = behind_keys(net, net.v_dim.into());
            let qkv = Rows::of(single, rows, 2 * keys + values);
            let qkv = self.linear(x, &qkv, hidden)?;
            let gate = Rows::of(gate, net.value_rows(net.v_dim.into()), values);
            return Ok([qkv, self.linear(x, &gate, hidden)?]);
        }
        let fused = self.layer_name(&names.delta_fused, layer);
        let [q, k, v, gate] = net.fused_rows();
        let all = 2 * (keys + values);
        let qkv = Rows::of(fused.clone(), [q, k, v].concat(), all);
        let qkv = self.linear(x, &qkv, hidden)?;
        Ok([qkv, self.linear(x, &Rows::of(fused, gate, all), hidden)?])
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
            let rows = |name: String| {
                let rows = net.value_rows(1).into_iter();
                rows.map(move |rows| (name.clone(), rows))
            };
            return self.stacked_linear(x, rows(beta).chain(rows(step)).collect(), hidden);
        }
        let of_heads = heads / u64::from(net.k_heads);
        let [beta, step] = net.rows_by_key([of_heads; 2]);
        let parts = [beta, step].concat().into_iter();
        let parts = parts.map(|rows| (fused.clone(), rows)).collect();
        self.stacked_linear(x, parts, hidden)
    }
}

/// Returns the rows of queries and keys as they are, and those of values in the order of the heads of keys.
fn behind_keys(net: DeltaNetSpec, size: u64) -> Vec<Range<u64>> {
    let keys = 2 * net.keys();
    if !net.tiled {
        return std::iter::once(0..keys + u64::from(net.v_heads) * size).collect();
    }
    let values = net.value_rows(size).into_iter();
    let values = values.map(|rows| keys + rows.start..keys + rows.end);
    std::iter::once(0..keys).chain(values).collect()
}

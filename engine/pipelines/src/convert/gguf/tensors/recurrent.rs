//! The tensors of layers with a recurrent state that change more than their names.

use wisp_weights::View;

use super::Plan;
use crate::{
    convert::{error::ConvertError, planned_tensor::ValueChange},
    spec::{Mixer, TensorNames, in_layer},
};

impl Plan<'_, '_, '_> {
    /// Adds the vectors of a layer's recurrence. Decays become their negative exponentials.
    pub(super) fn add_recurrent_vectors(
        &mut self,
        to: &TensorNames,
        layer: usize,
    ) -> Result<(), ConvertError> {
        let from = self.names;
        let (vectors, heads) = match self.spec.layers.get(layer).map(|layer| layer.mixer) {
            Some(Mixer::Mamba2(_) | Mixer::AttentionAndMamba2(_)) => (
                [
                    [&from.mamba_a_log, &to.mamba_a_log],
                    [&from.mamba_step_bias, &to.mamba_step_bias],
                    [&from.mamba_d, &to.mamba_d],
                ],
                None,
            ),
            Some(Mixer::DeltaNet(net)) => (
                [
                    [&from.delta_a_log, &to.delta_a_log],
                    [&from.delta_step_bias, &to.delta_step_bias],
                    [&from.delta_step_bias, &to.delta_step_bias],
                ],
                Some(net),
            ),
            _ => return Ok(()),
        };
        let count = if heads.is_some() { 2 } else { 3 };
        for (i, [from, to]) in vectors.into_iter().take(count).enumerate() {
            let change = match i {
                0 => ValueChange::NegativeExp,
                _ => ValueChange::None,
            };
            let before = self.planned.len();
            self.add_vector(from, to, layer, change)?;
            let Some(planned) = self.planned.get_mut(before) else {
                continue;
            };
            match heads {
                Some(net) if self.tiled => {
                    let source = format!("{} tiled", planned.source);
                    let parts = net.tiled_rows(1).into_iter();
                    let parts = parts.map(|rows| (planned.source.clone(), rows)).collect();
                    self.views.add(&source, View::Rows(parts), &planned.shape)?;
                    planned.source = source;
                }
                // The format keeps a column for decays and for factors on inputs.
                None if i != 1 => planned.shape.push(1),
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds the projections of a delta net that a checkpoint stores fused, by the heads of keys.
    pub(super) fn add_fused_delta_net(
        &mut self,
        to: &TensorNames,
        layer: usize,
    ) -> Result<(), ConvertError> {
        let Some(Mixer::DeltaNet(net)) = self.spec.layers.get(layer).map(|layer| layer.mixer)
        else {
            return Ok(());
        };
        let name = format!(
            "{}{}.weight",
            self.prefix,
            in_layer(&self.names.delta_fused, layer)
        );
        if self.names.delta_fused.is_empty() || !self.exists(&name) {
            return Ok(());
        }
        self.used.insert(name.clone());
        let hidden = self.spec.hidden_size;
        let [q, k, v, gate] = net.fused_rows();
        let parts = [(&to.delta_qkv, [q, k, v].concat()), (&to.delta_gate, gate)];
        for (to, rows) in parts {
            let count = rows.iter().map(|rows| rows.end - rows.start).sum();
            let rows = rows.into_iter().map(|rows| (name.clone(), rows));
            let to = format!("{}.weight", in_layer(to, layer));
            self.add_view(to, View::Rows(rows.collect()), &[count, hidden])?;
        }
        Ok(())
    }

    /// Gives the tensor that was planned last the dimensions that other programs require: filters have two, and the norm
    /// of Mamba's result has a row for each group.
    pub(super) fn shape_last(&mut self) {
        let layer = self.spec.layers.get(self.layer);
        let mamba = layer.and_then(|layer| layer.mixer.mamba2());
        let Some(planned) = self.planned.last_mut() else {
            return;
        };
        let is = |part: &str| planned.name.ends_with(part);
        if is(".ssm_conv1d.weight") || is(".shortconv.conv.weight") {
            planned.shape.retain(|size| *size != 1);
        } else if let Some(mamba) = mamba.filter(|_| is(".ssm_norm.weight")) {
            let groups = u64::from(mamba.groups.max(1));
            planned.shape = vec![groups, mamba.inner() / groups];
        } else if self.bare_mlp_norm && is(".ffn_norm.weight") {
            let name = planned.name.trim_end_matches(".weight");
            planned.name = name.into();
        }
    }
}

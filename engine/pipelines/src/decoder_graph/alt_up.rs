//! Alternating updates (Baykal et al. 2023, in Gemma 3n): the residual stream has several versions, `[tokens, versions,
//! hidden]`, of which layers compute one.

use wisp_graph::{
    Binary, Map, Unary, ValueId,
    ops::{Concat, MatMul},
};
use wisp_types::shape;
use wisp_weights::View;

use super::{builder::GraphBuilder, error::DecoderError, inputs::BlockInputs};
use crate::spec::{AltUp, TensorNames, in_layer};

/// The least mean square by which a version is scaled to the size of another.
const LEAST_SQUARE: f32 = 1e-5;

impl GraphBuilder<'_, '_> {
    /// Adds all versions of the residual stream: the embedding `x` and projections of it, all of the same size.
    pub fn alt_up_versions(&mut self, alt_up: AltUp, x: ValueId) -> Result<ValueId, DecoderError> {
        let hidden = self.spec.hidden_size;
        let mut versions = vec![x];
        for version in 1..alt_up.inputs {
            let projected = self.version_projection(|names| &names.alt_up_in, version, x)?;
            versions.push(self.as_large_as(projected, x)?);
        }
        for version in &mut versions {
            *version = self
                .graph
                .reshape(*version, shape!["tokens", 1u64, hidden])?;
        }
        match versions[..] {
            [only] => Ok(only),
            _ => Ok(self.graph.add(Concat { axis: 1 }, &versions)?),
        }
    }

    /// Adds the mean of the first version after the last layer and projections of the others, all of the same size.
    pub fn alt_up_mean(&mut self, alt_up: AltUp, x: ValueId) -> Result<ValueId, DecoderError> {
        let first = self.version(x, 0)?;
        let mut sum = first;
        for version in 1..alt_up.inputs {
            let other = self.version(x, version)?;
            let projected = self.version_projection(|names| &names.alt_up_out, version, other)?;
            let projected = self.as_large_as(projected, first)?;
            sum = self.graph.add(Binary::Add, &[sum, projected])?;
        }
        self.map(sum, Map::Scale(1.0 / alt_up.inputs as f32))
    }

    /// Adds a block: predictions of all versions, the layer of one of them, and corrections of all.
    pub fn alt_up_block(
        &mut self,
        alt_up: AltUp,
        layer: usize,
        x: ValueId,
        inputs: &BlockInputs,
    ) -> Result<ValueId, DecoderError> {
        let (hidden, names) = (self.spec.hidden_size, self.names);
        let count = u64::from(alt_up.inputs);
        let active = self.version(x, alt_up.active)?;
        let routed = self.routed(alt_up, layer, active)?;
        let name = self.layer_name(&names.alt_up_prediction, layer);
        let factors = self.whole_linear(routed, name, [count * count, count])?;
        let factors = self
            .graph
            .reshape(factors, shape!["tokens", count, count])?;
        let product = MatMul {
            transpose_a: false,
            transpose_b: false,
        };
        let predicted = self.graph.add(product, &[factors, x])?;
        let predicted = self.graph.add(Binary::Add, &[predicted, x])?;

        let prediction = self.version(predicted, alt_up.active)?;
        let computed = self.sublayers(layer, prediction, inputs)?;

        let routed = self.routed(alt_up, layer, computed)?;
        let name = self.layer_name(&names.alt_up_correction, layer);
        let factors = self.whole_linear(routed, name, [count, count])?;
        let one = self.graph.scalar(1.0);
        let factors = self.graph.add(Binary::Add, &[factors, one])?;
        let factors = self.graph.reshape(factors, shape!["tokens", count, 1u64])?;
        let change = self.graph.add(Binary::Sub, &[computed, prediction])?;
        let change = self.graph.reshape(change, shape!["tokens", 1u64, hidden])?;
        let changes = self.graph.add(Binary::Mul, &[factors, change])?;
        let corrected = self.graph.add(Binary::Add, &[changes, predicted])?;

        let mut active = self.version(corrected, alt_up.active)?;
        if alt_up.scaled {
            let name = self.layer_name(&names.alt_up_scale, layer);
            let scale = self.weight(name, &[hidden])?;
            active = self.graph.add(Binary::Mul, &[active, scale])?;
        }
        let Some(input) = self.layer_input(layer, active, inputs)? else {
            return Ok(corrected);
        };
        // All versions but the first take the layer's embedding.
        let input = self.graph.reshape(input, shape!["tokens", 1u64, hidden])?;
        let taken: Vec<f32> = (0..count).map(|version| f32::from(version > 0)).collect();
        let taken = self.graph.constant(&taken, shape![count, 1u64])?;
        let input = self.graph.add(Binary::Mul, &[input, taken])?;
        Ok(self.graph.add(Binary::Add, &[corrected, input])?)
    }

    /// Adds the router's output for a version, `[tokens, versions]`.
    fn routed(&mut self, alt_up: AltUp, layer: usize, x: ValueId) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let name = self.layer_name(&names.alt_up_norm, layer);
        let normed = self.norm(spec.norm, x, name, spec.hidden_size)?;
        let normed = self.map(normed, Map::Scale(1.0 / spec.hidden_size as f32))?;
        let name = self.layer_name(&names.alt_up_router, layer);
        let size = [alt_up.inputs.into(), spec.hidden_size];
        let routed = self.whole_linear(normed, name, size)?;
        Ok(self.graph.unary(Unary::Tanh, routed)?)
    }

    /// Adds one version of the residual stream, `[tokens, hidden]`.
    fn version(&mut self, x: ValueId, version: u32) -> Result<ValueId, DecoderError> {
        let x = self.graph.slice(x, 1, version.into(), 1, 1)?;
        let shape = shape!["tokens", self.spec.hidden_size];
        Ok(self.graph.reshape(x, shape)?)
    }

    /// Adds the projection of a version, counted from 1.
    fn version_projection(
        &mut self,
        template: fn(&TensorNames) -> &str,
        version: u32,
        x: ValueId,
    ) -> Result<ValueId, DecoderError> {
        let hidden = self.spec.hidden_size;
        let template = template(self.names);
        let name = self.name(&in_layer(template, version as usize - 1));
        if template.contains("{}") {
            return self.whole_linear(x, name, [hidden, hidden]);
        }
        let first = u64::from(version - 1) * hidden;
        let name = format!("{name}.weight");
        let view = View::Rows(vec![(name.clone(), first..first + hidden)]);
        let weight = self.view(format!("{name}[{first}..]"), view, &[hidden, hidden])?;
        self.product(x, weight, None)
    }

    /// Scales the rows of `x` to the length of those of `other`.
    fn as_large_as(&mut self, x: ValueId, other: ValueId) -> Result<ValueId, DecoderError> {
        let [square, target] = [x, other].map(|value| {
            let squares = self.graph.add(Binary::Mul, &[value, value])?;
            self.row_mean(squares)
        });
        let least = self.graph.scalar(LEAST_SQUARE);
        let square = self.graph.add(Binary::Max, &[square?, least])?;
        let factor = self.graph.add(Binary::Div, &[target?, square])?;
        let factor = self.graph.unary(Unary::Sqrt, factor)?;
        Ok(self.graph.add(Binary::Mul, &[x, factor])?)
    }
}

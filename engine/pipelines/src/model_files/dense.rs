//! A linear layer after the pooling of an embedding.

use serde_json::Value;
use wisp_weights::{Checkpoint, WeightSource};

/// A linear layer that is applied to pooled embeddings (`Dense` of sentence-transformers).
#[derive(Clone, Debug, PartialEq)]
pub struct Dense {
    /// `[outputs, inputs]`.
    weight: Vec<f32>,
    /// `[outputs]`; empty if there is no bias.
    bias: Vec<f32>,
    inputs: usize,
    /// Whether the hyperbolic tangent is applied to the outputs.
    tanh: bool,
}

impl Dense {
    /// Reads a layer from its configuration and its tensors `linear.weight` and `linear.bias`.
    ///
    /// # Errors
    ///
    /// If a tensor is missing or does not fit the others, or the activation is not supported.
    pub(super) fn read(config: &Value, weights: &Checkpoint) -> Result<Dense, String> {
        let activation = config.get("activation_function").and_then(Value::as_str);
        let tanh = match activation.and_then(|path| path.rsplit('.').next()) {
            Some("Tanh") => true,
            Some("Identity") => false,
            // The default of sentence-transformers.
            None => true,
            Some(other) => return Err(format!("the activation {other} is not supported")),
        };
        let shape = weights.find("linear.weight").map(|info| info.shape.clone());
        let Some(&[outputs, inputs]) = shape.as_deref() else {
            return Err("linear.weight is missing or no matrix".into());
        };
        let weight = values(weights, "linear.weight")?.unwrap_or_default();
        let bias = values(weights, "linear.bias")?.unwrap_or_default();
        if !bias.is_empty() && bias.len() as u64 != outputs {
            return Err(format!(
                "linear.bias has {} elements, expected {outputs}",
                bias.len()
            ));
        }
        Ok(Dense {
            weight,
            bias,
            // The tensor is in memory, so its sizes fit.
            inputs: inputs as usize,
            tanh,
        })
    }

    /// Reads a layer without bias and activation from a tensor of a GGUF file; `None` if the file does not have it.
    ///
    /// # Errors
    ///
    /// If it is no matrix, or cannot be read.
    pub(super) fn plain(weights: &Checkpoint, name: &str) -> Result<Option<Dense>, String> {
        let Some(info) = weights.find(name) else {
            return Ok(None);
        };
        let &[_, inputs] = info.shape.as_slice() else {
            return Err(format!("{name} is no matrix"));
        };
        let weight = values(weights, name)?.unwrap_or_default();
        Ok(Some(Dense {
            weight,
            bias: Vec::new(),
            inputs: inputs as usize,
            tanh: false,
        }))
    }

    /// Returns the number of inputs and of outputs.
    pub fn widths(&self) -> [usize; 2] {
        [self.inputs, self.weight.len() / self.inputs.max(1)]
    }

    /// Computes the outputs for an embedding, of which there are as many elements as inputs.
    pub fn apply(&self, embedding: &[f32]) -> Vec<f32> {
        let rows = self.weight.chunks_exact(self.inputs.max(1)).enumerate();
        let output = |(i, row): (usize, &[f32])| {
            let products = row.iter().zip(embedding);
            let sum: f64 = products.map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
            let sum = sum + f64::from(self.bias.get(i).copied().unwrap_or(0.0));
            match self.tanh {
                true => sum.tanh() as f32,
                false => sum as f32,
            }
        };
        rows.map(output).collect()
    }
}

/// Returns the elements of a tensor; `None` if there is no such tensor.
fn values(weights: &Checkpoint, name: &str) -> Result<Option<Vec<f32>>, String> {
    if weights.find(name).is_none() {
        return Ok(None);
    }
    let values = weights.read_f32(name).map_err(|error| error.to_string())?;
    Ok(Some(values))
}

//! A checkpoint's tensors as candle asks for them.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use candle_core::{DType, Device, Error, Result, Shape, Tensor};
use candle_nn::{Init, VarBuilder, var_builder::SimpleBackend};
use wisp_types::Encoding;
use wisp_weights::{Checkpoint, WeightSource};

use super::{architectures::CandleArchitecture, error::CandleError};
use crate::error::PipelineError;

/// Endings of tensors that some checkpoints have although models compute them.
const COMPUTED: &[&str] = &["rotary_emb.inv_freq", "attn.bias", "attn.masked_bias"];

/// The weight of the output layer.
const HEAD: &str = "lm_head.weight";

/// A tensor, and its name in the checkpoint.
struct Weight {
    tensor: Tensor,
    origin: String,
}

/// A checkpoint's tensors in f32, whose memory models share.
pub(super) struct Weights {
    tensors: HashMap<String, Weight>,
    /// The tensors that a model has asked for, by their names in the checkpoint.
    used: Mutex<BTreeSet<String>>,
}

impl Weights {
    /// Reads all tensors of floats. `aliases` are names for tensors that the checkpoint may have under
    /// another name; the output layer has one only if it is `tied`.
    ///
    /// # Errors
    ///
    /// If a tensor cannot be read.
    pub fn read(
        checkpoint: &Checkpoint,
        aliases: &[(&str, &str)],
        tied: bool,
    ) -> std::result::Result<Weights, PipelineError> {
        let mut tensors = HashMap::new();
        for info in checkpoint.tensors() {
            let dtype = match info.encoding() {
                Ok(Encoding::F32) => DType::F32,
                Ok(Encoding::F16) => DType::F16,
                Ok(Encoding::BF16) => DType::BF16,
                // Not weights: a model that asks for one reports it as missing.
                _ => continue,
            };
            let bytes = checkpoint.bytes(&info.name, 0..info.len)?;
            let shape: Vec<usize> = info.shape.iter().map(|size| *size as usize).collect();
            let read = || {
                Tensor::from_raw_buffer(&bytes, dtype, &shape, &Device::Cpu)?.to_dtype(DType::F32)
            };
            let tensor = read().map_err(|error| CandleError::Candle(error.to_string()))?;
            let origin = info.name.clone();
            tensors.insert(info.name.clone(), Weight { tensor, origin });
            checkpoint.release(&info.name, 0..info.len);
        }
        for (name, other) in aliases {
            if *name == HEAD && !tied {
                continue;
            }
            if let (false, Some(weight)) = (tensors.contains_key(*name), tensors.get(*other)) {
                let (tensor, origin) = (weight.tensor.clone(), weight.origin.clone());
                tensors.insert(name.to_string(), Weight { tensor, origin });
            }
        }
        let used = Mutex::default();
        Ok(Weights { tensors, used })
    }

    /// Returns the builder from which candle's models take their tensors.
    pub fn builder(weights: &Arc<Weights>) -> VarBuilder<'static> {
        let source = Box::new(Source(weights.clone()));
        VarBuilder::from_backend(source, DType::F32, Device::Cpu)
    }

    /// Checks that a model has asked for all tensors, except for the output layer where the embedding
    /// takes its place.
    ///
    /// # Errors
    ///
    /// If it has not asked for one.
    pub fn check_all_used(
        &self,
        architecture: &CandleArchitecture,
        tied: bool,
    ) -> std::result::Result<(), CandleError> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            |name: &str| COMPUTED.iter().any(|end| name.ends_with(end)) || (tied && name == HEAD);
        let mut unused: Vec<String> = self
            .tensors
            .values()
            .filter(|weight| !used.contains(&weight.origin) && !known(&weight.origin))
            .map(|weight| weight.origin.clone())
            .collect();
        unused.sort_unstable();
        unused.truncate(3);
        if unused.is_empty() {
            return Ok(());
        }
        Err(CandleError::Unused {
            architecture: architecture.name,
            tensors: unused,
        })
    }
}

/// The tensors as candle's [`VarBuilder`] takes them.
struct Source(Arc<Weights>);

impl SimpleBackend for Source {
    fn get(&self, shape: Shape, name: &str, _: Init, dtype: DType, to: &Device) -> Result<Tensor> {
        let tensor = self.get_unchecked(name, dtype, to)?;
        match *tensor.shape() == shape {
            true => Ok(tensor),
            false => Err(Error::UnexpectedShape {
                msg: format!("{name} has another shape than config.json says"),
                expected: shape,
                got: tensor.shape().clone(),
            }),
        }
    }

    fn get_unchecked(&self, name: &str, dtype: DType, to: &Device) -> Result<Tensor> {
        let missing = || Error::msg(format!("the checkpoint has no tensor {name}"));
        let weight = self.0.tensors.get(name).ok_or_else(missing)?;
        let mut used = self.0.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.insert(weight.origin.clone());
        weight.tensor.to_dtype(dtype)?.to_device(to)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.0.tensors.contains_key(name)
    }
}

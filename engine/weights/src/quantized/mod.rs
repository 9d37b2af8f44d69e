//! Matrices that files store quantised, as several tensors each: codes, scales, zero points.
//!
//! A checkpoint shows each of them as one tensor `….weight` in an encoding that devices compute with, whose blocks
//! are put together when they are read. Codes are moved, not decoded, so that nothing is lost: see [`ZeroPoint`] for
//! the one exception, scales in single precision beside zero points.
//!
//! A format is a list of where the numbers are ([`Packed`], [`Scales`]), which [`formats`] has for each method.

mod config;
mod formats;
mod ggml_nvfp4;
mod joined;
mod matrix;
mod packed;
mod parts;
mod scales;
mod stored;
mod tensor_scales;
mod tensors;
#[cfg(test)]
mod tests;

pub use config::QuantizationConfig;
pub(crate) use ggml_nvfp4::ggml_nvfp4;
pub(crate) use joined::JoinedTensor;
use matrix::QuantizedMatrix;
pub(crate) use stored::StoredTensors;

use std::collections::HashSet;

use self::tensors::Tensors;
#[cfg(doc)]
use self::{packed::Packed, scales::Scales};
#[cfg(doc)]
use crate::blocks::ZeroPoint;
use crate::error::WeightError;

/// Puts the quantised matrices of a checkpoint together. Returns them with the names of the tensors that they
/// consist of.
///
/// # Errors
///
/// If the tensors of a matrix do not fit together, or Wisp does not support their format.
pub(crate) fn matrices(
    stored: &dyn StoredTensors,
    config: &QuantizationConfig,
) -> Result<(Vec<QuantizedMatrix>, HashSet<String>), WeightError> {
    let mut matrices = Vec::new();
    let mut parts = HashSet::new();
    for tensor in stored.tensors() {
        let Some(base) = config.base(tensor) else {
            continue;
        };
        let tensors = Tensors {
            stored,
            weight: format!("{base}.weight"),
        };
        let matrix = formats::matrix(&tensors, config, base)?;
        parts.extend(config.part_names(base));
        matrices.push(matrix);
    }
    Ok((matrices, parts))
}

/// True for tensors that must be read before the weights: the groups of columns, and what describes a matrix.
pub(crate) fn is_read_ahead(name: &str) -> bool {
    name.ends_with("g_idx") || name.contains(".quant_state.bitsandbytes__")
}

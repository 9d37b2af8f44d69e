//! Where the methods' tensors hold the numbers of a matrix.

mod assemble;
mod byte_codes;
mod groups;
mod nf4;
mod nvfp4;
mod word_codes;

use self::nvfp4::Package;
use super::{
    config::{Method, QuantizationConfig},
    matrix::QuantizedMatrix,
    tensors::Tensors,
};
use crate::{error::WeightError, tensor::StoredEncoding};

/// The type of pairs of codes of 4 bits.
const BYTES: StoredEncoding = StoredEncoding::Unsupported("U8");

/// Puts the quantised weight of a linear layer together.
///
/// # Errors
///
/// If a tensor is missing or does not fit the others.
pub(super) fn matrix(
    tensors: &Tensors<'_>,
    config: &QuantizationConfig,
    base: &str,
) -> Result<QuantizedMatrix, WeightError> {
    match config.method {
        Method::Fp8 { block } => byte_codes::matrix(tensors, base, block),
        Method::Gptq {
            bits,
            zeros_less_one,
        } => word_codes::gptq(tensors, base, bits, zeros_less_one),
        Method::Awq => word_codes::awq(tensors, base),
        Method::CompressedTensors { bits, block } => {
            match tensors.find(&format!("{base}.weight_packed")) {
                Some(packed) if packed.stored == BYTES => {
                    nvfp4::matrix(tensors, base, packed, Package::CompressedTensors)
                }
                Some(packed) => word_codes::compressed(tensors, base, packed, bits),
                None => byte_codes::matrix(tensors, base, block),
            }
        }
        Method::Nf4 => nf4::matrix(tensors, base),
        Method::ModelOpt => {
            let weight = tensors.require(&format!("{base}.weight"))?;
            if weight.stored == BYTES {
                return nvfp4::matrix(tensors, base, weight, Package::ModelOpt);
            }
            nvfp4::refuse_other_parts(tensors, base)?;
            byte_codes::matrix(tensors, base, None)
        }
    }
}

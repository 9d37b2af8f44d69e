//! The parameters of a program's kernel calls for the sizes of a run.

use wisp_compiler::{Call, ParamWord, Size};

use crate::{dims::Dims, error::SessionError};

/// The words of a call's parameters.
pub(crate) fn call_params(call: &Call, dims: &Dims) -> Result<Vec<u32>, SessionError> {
    let words = call.params.iter().map(|word| match word {
        ParamWord::Const(value) => Ok(*value),
        ParamWord::Size(size) => evaluate(&call.label, size, dims),
    });
    words.collect()
}

/// The value of a size, which a kernel takes as 32 bits.
pub(crate) fn evaluate(label: &str, size: &Size, dims: &Dims) -> Result<u32, SessionError> {
    let value = size.eval(&dims.0);
    value
        .and_then(|value| u32::try_from(value).ok())
        .ok_or_else(|| SessionError::TooLarge {
            op: label.into(),
            size: value.unwrap_or(u64::MAX),
        })
}

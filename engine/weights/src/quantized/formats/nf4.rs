//! bitsandbytes' NF4: the nibbles of all rows, the largest magnitudes of their blocks, and a description in JSON.

use serde_json::Value;
use wisp_types::encoding::{BLOCK, Encoding};

use super::assemble::assemble;
use crate::{
    error::WeightError,
    quantized::{
        matrix::{Factors, QuantizedMatrix},
        packed::{Along, Packed},
        scales::{Absmax, Nested},
        tensors::Tensors,
    },
    tensor::{StoredEncoding, TensorInfo},
};

/// The order of the nibbles of a byte.
const HIGH_FIRST: &[u32] = &[4, 0];

/// The longest description that is read.
const MAX_STATE_BYTES: u64 = 1 << 16;

/// Puts a weight of bitsandbytes together.
pub(super) fn matrix(tensors: &Tensors<'_>, base: &str) -> Result<QuantizedMatrix, WeightError> {
    let codes = tensors.require(&format!("{base}.weight"))?;
    let part = |name: &str| tensors.require(&format!("{base}.weight.{name}"));
    let state = State::read(tensors, part("quant_state.bitsandbytes__nf4")?)?;
    let [rows, cols] = state.shape(tensors)?;
    let weights = rows.checked_mul(cols);
    let Some(weights) = weights.filter(|weights| weights.div_ceil(2) == codes.len) else {
        return Err(tensors.unfit(codes, &format!("the nibbles of [{rows}, {cols}]")));
    };
    let block = state.number(tensors, "blocksize")?;
    if !block.is_multiple_of(BLOCK as u64) {
        let problem =
            format!("its blocks have {block} weights, supported are multiples of {BLOCK}");
        return Err(tensors.error(problem));
    }
    let blocks = weights.div_ceil(block);
    let absmax = part("absmax")?;
    let nested = match absmax.stored == StoredEncoding::Unsupported("U8") && absmax.len == blocks {
        true => {
            let block = state.number(tensors, "nested_blocksize")?;
            Some(Nested {
                map: floats(tensors, part("nested_quant_map")?, 256)?,
                absmax: floats(tensors, part("nested_absmax")?, blocks.div_ceil(block))?,
                block,
                offset: state.offset(),
            })
        }
        false => {
            floats(tensors, absmax, blocks)?;
            None
        }
    };
    let factors = Factors::Absmax {
        absmax: Absmax {
            tensor: absmax.clone(),
            block,
            nested,
        },
        map: floats(tensors, part("quant_map")?, 16)?,
    };
    let codes = Packed {
        tensor: codes.clone(),
        word_bytes: 1,
        along: Along::Cols,
        strides: [1, cols / 2],
        shifts: HIGH_FIRST,
        mask: 15,
        add: 0,
    };
    assemble(tensors, Encoding::NF4, [rows, cols], codes, (factors, cols))
}

/// Returns a tensor that has `count` floats.
fn floats(tensors: &Tensors<'_>, info: &TensorInfo, count: u64) -> Result<TensorInfo, WeightError> {
    let is_f32 = info.stored == StoredEncoding::Supported(Encoding::F32);
    match is_f32 && Some(info.len) == count.checked_mul(4) {
        true => Ok(info.clone()),
        false => Err(tensors.unfit(info, &format!("{count} elements of F32"))),
    }
}

/// The description of a weight.
struct State(Value);

impl State {
    fn read(tensors: &Tensors<'_>, info: &TensorInfo) -> Result<State, WeightError> {
        if info.len > MAX_STATE_BYTES {
            return Err(tensors.unfit(info, "a short text"));
        }
        let json = serde_json::from_slice(&tensors.bytes(info)?);
        json.map(State)
            .map_err(|problem| tensors.error(format!("its quant_state is no JSON: {problem}")))
    }

    /// Returns a number above 0.
    fn number(&self, tensors: &Tensors<'_>, key: &str) -> Result<u64, WeightError> {
        let number = self.0.get(key).and_then(Value::as_u64);
        let number = number.filter(|number| *number > 0);
        number.ok_or_else(|| tensors.error(format!("its quant_state lacks `{key}`")))
    }

    fn shape(&self, tensors: &Tensors<'_>) -> Result<[u64; 2], WeightError> {
        let sizes = self.0.get("shape").and_then(Value::as_array);
        match sizes.map(Vec::as_slice) {
            Some([rows, cols]) => rows
                .as_u64()
                .zip(cols.as_u64())
                .map(|(rows, cols)| [rows, cols]),
            _ => None,
        }
        .ok_or_else(|| tensors.error("its quant_state has no `shape` of two sizes"))
    }

    /// Returns what is added to all largest magnitudes.
    fn offset(&self) -> f32 {
        let offset = self.0.get("nested_offset").and_then(Value::as_f64);
        offset.unwrap_or(0.0) as f32
    }
}

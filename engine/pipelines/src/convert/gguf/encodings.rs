//! The encodings of a new file's tensors.

use std::collections::BTreeMap;

use wisp_types::Encoding;
use wisp_weights::encodings::QUANTIZABLE;

use crate::convert::planned_tensor::PlannedTensor;

/// Substrings of the names of tensors that are always stored as floats, because they are small or
/// quantization would harm the model's quality.
const ALWAYS_FLOAT: [&str; 9] = [
    ".bias",
    "position_embd.",
    "token_types.",
    "ffn_gate_inp.",
    "shortconv.conv.",
    "ssm_conv1d.",
    "ssm_norm.",
    "rope_freqs.",
    "rope_factors_",
];

/// Substrings of the names of tensors that llama.cpp does not quantise either, but which are too large for F32.
const UNQUANTIZED: [&str; 3] = ["altup_", "laurel_", "per_layer_model_proj."];

/// Returns the new encoding of a tensor: F32 for vectors and for tensors that are always floats, otherwise the wanted
/// encoding, or the nearest one where its blocks do not fit the rows.
pub(super) fn new_encoding(
    planned: &PlannedTensor,
    from: Encoding,
    wanted: Option<Encoding>,
) -> Encoding {
    let is_vector = planned.shape.iter().filter(|&&size| size != 1).count() < 2;
    if is_vector || ALWAYS_FLOAT.iter().any(|name| planned.name.contains(name)) {
        return if from.is_float() { Encoding::F32 } else { from };
    }
    let is_unquantized = UNQUANTIZED.iter().any(|name| planned.name.contains(name));
    let wanted = wanted.filter(|wanted| wanted.is_float() || !is_unquantized);
    let wanted = wanted.unwrap_or(from);
    let cols = planned.shape.last().copied().unwrap_or(1);
    match wanted.file_row_bytes(cols) {
        Some(_) => wanted,
        None => nearest(wanted, from, cols),
    }
}

/// Returns the encoding that has the quality of one whose super-blocks of 256 weights do not fit, as llama.cpp chooses it: with
/// smaller blocks it takes more bits.
fn in_small_blocks(wanted: Encoding) -> Encoding {
    match wanted {
        Encoding::Q4_K => Encoding::Q5_0,
        Encoding::Q5_K => Encoding::Q5_1,
        Encoding::Q6_K => Encoding::Q8_0,
        other => other,
    }
}

/// Returns the encoding whose bits per weight are nearest to those of the wanted one in small blocks, among those whose blocks
/// fit rows of `cols` weights and that take no more bytes than the present one.
fn nearest(wanted: Encoding, from: Encoding, cols: u64) -> Encoding {
    let limit = from.file_row_bytes(cols);
    let fits = |encoding: &Encoding| {
        let bytes = encoding.file_row_bytes(cols);
        bytes.is_some() && bytes <= limit
    };
    let ideal = bits(in_small_blocks(wanted));
    let distance = |encoding: &Encoding| (bits(*encoding) - ideal).abs();
    // Among equals the first is taken: nothing is lost if that is the present encoding.
    let candidates = std::iter::once(from).chain(QUANTIZABLE).filter(fits);
    let nearest = candidates.min_by(|a, b| distance(a).total_cmp(&distance(b)));
    nearest.unwrap_or(from)
}

/// Returns the bits per weight of an encoding.
fn bits(encoding: Encoding) -> f64 {
    8.0 * encoding.file_block_bytes() as f64 / encoding.file_block_weights() as f64
}

/// Returns a note that counts the tensors whose rows do not fit the wanted encoding, given the encodings that they
/// have instead; `None` if there are none.
pub(super) fn summary(
    wanted: Encoding,
    instead: impl IntoIterator<Item = Encoding>,
) -> Option<String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for encoding in instead {
        *counts.entry(encoding.name()).or_default() += 1;
    }
    let counts = counts.iter().map(|(name, count)| match count {
        1 => format!("1 tensor became {name}"),
        _ => format!("{count} tensors became {name}"),
    });
    let counts: Vec<String> = counts.collect();
    let (name, multiple) = (wanted.name(), wanted.file_block_weights());
    (!counts.is_empty()).then(|| {
        format!(
            "{name} needs rows of a multiple of {multiple} weights: {}",
            counts.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_do_not_fit_take_the_nearest_encoding_that_is_no_larger() {
        use Encoding::{BF16, F16, F32, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0};
        for (wanted, from, cols, expected) in [
            (Q4_K, F32, 576, Q5_0),
            (Q4_K, Q8_0, 576, Q5_0),
            // Q5_0 would be larger than the source.
            (Q4_K, Q4_1, 576, Q4_1),
            (Q4_K, Q4_0, 576, Q4_0),
            (Q5_K, BF16, 576, Q5_1),
            (Q6_K, F16, 576, Q8_0),
            // Q8_0 is nearer, but larger than the source.
            (Q6_K, Q4_1, 576, Q4_1),
            (Q4_K, F32, 100, F16),
            (Q4_K, F16, 100, F16),
            (Q8_0, BF16, 100, BF16),
        ] {
            assert_eq!(
                nearest(wanted, from, cols),
                expected,
                "{wanted} {from} {cols}"
            );
        }
    }

    #[test]
    fn summary_counts_tensors_by_encoding() {
        let instead = [Encoding::Q4_0, Encoding::F16, Encoding::Q4_0];
        assert_eq!(
            summary(Encoding::Q4_K, instead).unwrap(),
            format!(
                "{} needs rows of a multiple of 256 weights: 1 tensor became {}, 2 tensors became {}",
                Encoding::Q4_K.name(),
                Encoding::F16.name(),
                Encoding::Q4_0.name()
            )
        );
        assert_eq!(summary(Encoding::Q4_K, []), None);
    }
}

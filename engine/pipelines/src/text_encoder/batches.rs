//! Groups texts into batches, and fits limits to the device.

use super::{
    super::{
        DecoderSpec, ModelLimits, PipelineError, decoder_graph::DecoderError, spec::EncoderSpec,
    },
    EncodeError,
};
use wisp_types::Capabilities;

/// Returns each token's row in the table of learned positions.
pub(super) fn learned_positions(encoder: EncoderSpec, tokens: &[u32]) -> impl Iterator<Item = u32> {
    let mut next = encoder
        .padding
        .map_or(0, |padding| padding.saturating_add(1));
    tokens.iter().map(move |token| match encoder.padding {
        Some(padding) if *token == padding => padding,
        _ => {
            next += 1;
            next - 1
        }
    })
}

pub(super) fn check<T: AsRef<[u32]>>(
    spec: &DecoderSpec,
    most: u64,
    texts: &[T],
) -> Result<(), PipelineError> {
    let vocab_size = spec.vocab_size;
    for (text, tokens) in (1..).zip(texts) {
        let tokens = tokens.as_ref();
        let unknown = |token: &&u32| u64::from(**token) >= vocab_size;
        if tokens.is_empty() {
            return Err(EncodeError::Empty { text }.into());
        }
        if tokens.len() as u64 > most {
            let tokens = tokens.len();
            return Err(EncodeError::TooLong { text, tokens, most }.into());
        }
        if let Some(token) = tokens.iter().find(unknown) {
            let token = *token;
            return Err(PipelineError::UnknownToken { token, vocab_size });
        }
    }
    Ok(())
}

/// Returns how many of the first texts the next batch takes: as many as the limits allow and as have together at most
/// `tokens` tokens, but at least one if there is any. No text may exceed the limits.
pub(super) fn batch_len<T: AsRef<[u32]>>(limits: &ModelLimits, tokens: u64, texts: &[T]) -> usize {
    let most = limits.max_step_tokens.min(tokens);
    let sums = texts.iter().scan(0, |sum, text| {
        *sum += text.as_ref().len() as u64;
        Some(*sum)
    });
    let count = sums.take_while(|sum| *sum <= most).count();
    let max_batch = usize::try_from(limits.max_batch).unwrap_or(usize::MAX);
    count.max(1).min(max_batch).min(texts.len())
}

/// Clamps limits to what the device and the model support: a binding must hold every intermediate
/// result of the longest text, and the cache.
pub(super) fn fit(
    capabilities: &Capabilities,
    spec: &DecoderSpec,
    mut limits: ModelLimits,
) -> Result<ModelLimits, PipelineError> {
    // The arithmetic below relies on sizes that are neither zero nor huge.
    spec.check().map_err(DecoderError::Spec)?;
    let heads = u64::from(spec.heads) + 2 * u64::from(spec.kv_heads);
    // The cache has up to twice as many positions as there are tokens.
    let widest = [
        heads * u64::from(spec.head_dim),
        u64::from(spec.heads) * u64::from(spec.cached_heads(0).head_dim),
        2 * spec.intermediate_size,
        spec.hidden_size,
        spec.kv_row_bytes(0, limits.cache_format) / 2,
    ]
    .into_iter()
    .fold(1, u64::max);
    let binding = capabilities.max_binding_bytes;
    let most = (binding.min(capabilities.max_buffer_bytes) / (4 * widest)).max(1);
    limits.page_size = limits.page_size.clamp(1, 1 << 16);
    limits = limits.within_context(spec.max_positions, spec.max_positions)?;
    limits.max_length = limits.max_length.clamp(1, most);
    limits.max_step_tokens = limits.max_step_tokens.clamp(limits.max_length, most);
    let page_size = u64::from(limits.page_size);
    limits.max_batch = limits.max_batch.clamp(1, (most / page_size).max(1));
    let pages = limits.max_step_tokens / page_size + limits.max_batch;
    limits.pages = pages.min(limits.pages_per_sequence() * limits.max_batch);
    Ok(limits)
}

/// Returns what a model computed of each text, if all of it is finite.
pub(super) fn finite(rows: Vec<Vec<f32>>) -> Result<Vec<Vec<f32>>, EncodeError> {
    let is_finite = |row: &Vec<f32>| row.iter().all(|value| value.is_finite());
    match rows.iter().position(|row| !is_finite(row)) {
        Some(at) => Err(EncodeError::NotFinite { text: at + 1 }),
        None => Ok(rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_as_few_as_the_limits_and_the_pace_allow() {
        let limits = ModelLimits {
            max_batch: 2,
            max_step_tokens: 5,
            ..Default::default()
        };
        let texts = [1, 2, 3, 2, 1, 1, 5, 1].map(|len| vec![0u32; len]);
        for (tokens, expected) in [
            (u64::MAX, &[2, 2, 2, 1, 1][..]),
            (3, &[2, 1, 2, 1, 1, 1]),
            (0, &[1; 8]),
        ] {
            let mut rest = &texts[..];
            let mut lens = Vec::new();
            while !rest.is_empty() {
                lens.push(batch_len(&limits, tokens, rest));
                rest = &rest[lens[lens.len() - 1]..];
            }
            assert_eq!(lens, expected);
        }
        assert_eq!(batch_len::<Vec<u32>>(&limits, 9, &[]), 0);
    }

    #[test]
    fn positions_pass_over_padding() {
        let positions = |padding, tokens: &[u32]| {
            let encoder = EncoderSpec {
                token_types: 1,
                padding,
                ..EncoderSpec::bidirectional()
            };
            learned_positions(encoder, tokens).collect::<Vec<_>>()
        };
        assert_eq!(positions(None, &[5, 1, 6]), [0, 1, 2]);
        assert_eq!(positions(Some(1), &[5, 1, 6]), [2, 1, 3]);
    }

    #[test]
    fn first_text_with_nan_or_infinity_is_reported() {
        assert_eq!(finite(vec![vec![1.0], vec![]]), Ok(vec![vec![1.0], vec![]]));
        for value in [f32::NAN, f32::INFINITY] {
            let rows = vec![vec![1.0], vec![2.0, value], vec![value]];
            assert_eq!(finite(rows), Err(EncodeError::NotFinite { text: 2 }));
        }
    }
}

//! The memory that the calls that sample pass on: for each row, a summary of each chunk of tokens, then the
//! tokens' values, then their ids.

use bytemuck::{Pod, Zeroable};
use wisp_shaders::params::{SAMPLE_CHUNK, SAMPLE_CHUNK_WORDS};

use super::weight;

/// The summary of a chunk.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub(super) struct Chunk {
    /// The largest value.
    pub max: f32,
    /// The first token that has it.
    pub max_token: u32,
    /// The sum of the weights relative to `max`.
    pub weight: f32,
    /// The largest logit.
    pub logit_max: f32,
    /// The sum of the weights of the logits relative to `logit_max`.
    pub logit_weight: f32,
    /// The number of tokens that remain.
    pub count: u32,
    /// The key of the largest value plus noise, 0 if no token is kept.
    pub drawn: u32,
    /// The first token that has it.
    pub drawn_token: u32,
}

const _: () = assert!(size_of::<Chunk>() == 4 * SAMPLE_CHUNK_WORDS as usize);

/// Returns the words of the summaries of a row.
fn chunk_words(vocab: usize) -> usize {
    vocab.div_ceil(SAMPLE_CHUNK as usize) * SAMPLE_CHUNK_WORDS as usize
}

/// Returns the words of a row.
pub(super) fn row_words(vocab: usize) -> usize {
    chunk_words(vocab) + 2 * vocab
}

/// Returns the summaries, values and ids of a row.
pub(super) fn split(words: &[u32], vocab: usize) -> (&[Chunk], &[u32], &[u32]) {
    let (chunks, tokens) = words.split_at(chunk_words(vocab));
    let (values, ids) = tokens.split_at(vocab);
    (bytemuck::cast_slice(chunks), values, ids)
}

/// Returns the summaries, values and ids of a row for writing.
pub(super) fn split_mut(words: &mut [u32], vocab: usize) -> (&mut [Chunk], &mut [u32], &mut [u32]) {
    let (chunks, tokens) = words.split_at_mut(chunk_words(vocab));
    let (values, ids) = tokens.split_at_mut(vocab);
    (bytemuck::cast_slice_mut(chunks), values, ids)
}

/// Returns the largest value of a row.
pub(super) fn row_max(chunks: &[Chunk]) -> f32 {
    chunks
        .iter()
        .fold(f32::MIN, |max, chunk| max.max(chunk.max))
}

/// Returns the sum of the weights of a row relative to its largest value.
pub(super) fn row_weight(chunks: &[Chunk], max: f32) -> f64 {
    let weights = chunks
        .iter()
        .map(|chunk| f64::from(chunk.weight) * f64::from(weight(chunk.max, max)));
    weights.sum()
}

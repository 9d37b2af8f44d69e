//! A second implementation of the formats of the KV cache, which tests compare with the engine's.

use half::f16;
use wisp_shaders::CacheFormat;

/// Stores heads, which are padded to whole groups of four elements.
pub fn encode(format: CacheFormat, head_dim: usize, heads: &[f32]) -> Vec<u32> {
    let halves = |pair: &[f32]| {
        let bits = |i: usize| pair.get(i).map_or(0, |x| f16::from_f32(*x).to_bits());
        u32::from(bits(0)) | u32::from(bits(1)) << 16
    };
    let head = |head: &[f32]| -> Vec<u32> {
        match format {
            CacheFormat::F32 => head.iter().map(|x| x.to_bits()).collect(),
            CacheFormat::F16 => head.chunks(2).map(halves).collect(),
            CacheFormat::Q8_0 => {
                let scale =
                    |block: &[f32]| block.iter().fold(0.0f32, |a, x| a.max(x.abs())) / 127.0;
                let scales: Vec<f32> = head.chunks(32).map(scale).collect();
                let byte = |(i, x): (usize, &f32)| (x / scales[i / 32]).round() as i8 as u8;
                let bytes: Vec<u8> = head.iter().enumerate().map(byte).collect();
                let words = bytes
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|four| u32::from_le_bytes(*four));
                let padding = vec![0; words_of_blocks(head_dim) - head.len() / 4];
                let words = words.chain(padding);
                words.chain(scales.chunks(2).map(halves)).collect()
            }
        }
    };
    let words = format.head_words(head_dim as u32) as usize;
    let padded = |words_of_head: Vec<u32>| {
        let padding = words - words_of_head.len();
        words_of_head.into_iter().chain(vec![0; padding])
    };
    heads
        .chunks(head_dim.next_multiple_of(4))
        .flat_map(|elements| padded(head(elements)))
        .collect()
}

/// The words of a head's blocks in q8_0, which are padded to 16 bytes.
fn words_of_blocks(head_dim: usize) -> usize {
    head_dim.next_multiple_of(16) / 4
}

/// Decodes what [`encode`] stored.
pub fn decode(format: CacheFormat, head_dim: usize, words: &[u32]) -> Vec<f32> {
    let half =
        |words: &[u32], i: usize| f16::from_bits((words[i / 2] >> (16 * (i % 2))) as u16).to_f32();
    let width = head_dim.next_multiple_of(4);
    let heads = words.chunks_exact(format.head_words(head_dim as u32) as usize);
    let element = move |head: &[u32], i: usize| match format {
        CacheFormat::F32 => f32::from_bits(head[i]),
        CacheFormat::F16 => half(head, i),
        CacheFormat::Q8_0 => {
            let byte = head[i / 4].to_le_bytes()[i % 4] as i8;
            f32::from(byte) * half(&head[words_of_blocks(head_dim)..], i / 32)
        }
    };
    heads
        .flat_map(|head| (0..width).map(move |i| element(head, i)))
        .collect()
}

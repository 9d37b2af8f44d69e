//! ggml's NVFP4: blocks of 64 weights with a scale of 8 bits for each 16, and in a tensor of its own, the scale of the
//! matrix.

use std::{collections::HashSet, ops::Range};

use wisp_types::encoding::Encoding;

use super::{
    parts::KeptTensors, stored::StoredTensors, tensor_scales::TensorScales, tensors::Tensors,
};
use crate::{
    error::WeightError,
    tensor::{StoredEncoding, TensorInfo},
};

/// Bytes of a block in GGUF files: four scales, and 32 bytes of codes.
const STORED_BYTES: u64 = 36;

/// A tensor in ggml's NVFP4.
#[derive(Debug)]
pub(crate) struct GgmlNvfp4 {
    /// The tensor that the checkpoint shows.
    pub info: TensorInfo,
    blocks: TensorInfo,
    /// The scales of the matrices; `None` if all are 1.
    scales: Option<TensorScales>,
    /// Blocks of a matrix.
    matrix_blocks: u64,
    kept: KeptTensors,
}

/// Returns the tensors in NVFP4, and the names of the others that belong to them: llama.cpp multiplies by `….scale`,
/// and scales activations that it quantises by `….input_scale`.
///
/// # Errors
///
/// If a scale does not fit its tensor.
pub(crate) fn ggml_nvfp4(
    stored: &dyn StoredTensors,
) -> Result<(Vec<GgmlNvfp4>, HashSet<String>), WeightError> {
    let mut found = Vec::new();
    let mut parts = HashSet::new();
    for blocks in stored.tensors() {
        if blocks.stored != StoredEncoding::Unsupported("NVFP4") {
            continue;
        }
        let weight = blocks.name.clone();
        let tensors = Tensors { stored, weight };
        let mut info = TensorInfo::new(&blocks.name, Encoding::NVFP4, &blocks.shape)?;
        (info.file, info.offset) = (blocks.file, blocks.offset);
        let matrices = match blocks.shape.as_slice() {
            [matrices, _, _] => *matrices,
            _ => 1,
        };
        let base = blocks.name.strip_suffix(".weight");
        let scales = base.and_then(|base| tensors.find(&format!("{base}.scale")));
        let scales = scales.map(|scales| TensorScales::new(&tensors, scales, matrices, false));
        let scales = scales.transpose()?;
        let endings = base.map(|base| [format!("{base}.scale"), format!("{base}.input_scale")]);
        parts.extend(endings.into_iter().flatten());
        found.push(GgmlNvfp4 {
            info,
            blocks: blocks.clone(),
            scales,
            matrix_blocks: (blocks.len / STORED_BYTES / matrices.max(1)).max(1),
            kept: KeptTensors::default(),
        });
    }
    Ok((found, parts))
}

impl GgmlNvfp4 {
    /// Reads the bytes `range` of the tensor.
    pub async fn read(
        &self,
        source: &dyn StoredTensors,
        range: Range<u64>,
    ) -> Result<Vec<u8>, WeightError> {
        if range.start > range.end || range.end > self.info.len {
            return Err(self.info.out_of_range(&range));
        }
        let block_bytes = Encoding::NVFP4.file_block_bytes() as u64;
        let blocks = range.start / block_bytes..range.end.div_ceil(block_bytes);
        let stored = blocks.start * STORED_BYTES..blocks.end * STORED_BYTES;
        let stored = source.read_stored(&self.blocks, stored).await?;
        let scales = match &self.scales {
            Some(scales) => Some((scales, self.kept.whole(source, &scales.tensor).await?)),
            None => None,
        };
        let (stored, _) = stored.as_chunks();
        let mut bytes = Vec::with_capacity(stored.len() * block_bytes as usize);
        // The last matrix whose scale was read, and that scale.
        let mut last = (u64::MAX, 1.0);
        for (block, index) in stored.iter().zip(blocks.clone()) {
            let matrix = index / self.matrix_blocks;
            if let Some((scales, bytes)) = &scales
                && matrix != last.0
            {
                let scale = scales.get(bytes, matrix);
                let scale = scale.map_err(|problem| WeightError::Quantized {
                    weight: self.info.name.clone(),
                    problem,
                })?;
                last = (matrix, scale);
            }
            push_block(block, last.1, &mut bytes);
        }
        bytes.truncate((range.end - blocks.start * block_bytes) as usize);
        bytes.drain(..(range.start - blocks.start * block_bytes) as usize);
        Ok(bytes)
    }

    /// Releases the blocks that were used, and what was kept once the end has been used.
    pub fn release(&self, source: &dyn StoredTensors, range: &Range<u64>) {
        if range.end == self.info.len {
            self.kept.clear();
            source.release_stored(&self.blocks, 0..self.blocks.len);
        }
    }
}

/// Appends a block with the scale of its matrix. Weight `j` of 16 is in the low half of byte `j`, and weight `8 + j` in
/// the high half.
fn push_block(block: &[u8; STORED_BYTES as usize], scale: f32, out: &mut Vec<u8>) {
    let (scales, codes) = block.split_at(4);
    out.extend(scale.to_le_bytes());
    // As `ggml_ue4m3_to_fp32`: there is no sign, and of the two NaN one is 0 and the other one 480.
    out.extend(scales.iter().map(|byte| match byte {
        0x7f => 0,
        byte => byte & 0x7f,
    }));
    let (pairs, _) = codes.as_chunks::<16>();
    for pair in pairs {
        let (first, second) = pair.split_at(8);
        let both = || first.iter().zip(second);
        out.extend(both().map(|(a, b)| a & 15 | b << 4));
        out.extend(both().map(|(a, b)| a >> 4 | b & 0xf0));
    }
}

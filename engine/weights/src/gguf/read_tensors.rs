//! The part of the reader that takes tensor infos.

use super::Gguf;
use super::bytes::Order;
use super::ggml_type::GgmlType;
use super::reader::{GgufReader, Result, State};
use crate::error::FormatError;
use crate::tensor::TensorInfo;

impl GgufReader {
    /// Takes a tensor's type and offset.
    pub(super) fn placement(&mut self, bytes: &[u8]) -> Result<State> {
        let (id, offset) = bytes.split_at(4);
        let offset = self.order.u64(offset);
        let tensor = std::mem::take(&mut self.name);
        let shape = std::mem::take(&mut self.shape);
        let ggml_type = match GgmlType::from_id(self.order.u32(id)) {
            Ok(ggml_type) => ggml_type,
            Err(found) => return Err(FormatError::UnknownType { tensor, found }),
        };
        let weights = shape
            .iter()
            .try_fold(1u64, |product, &size| product.checked_mul(size));
        let Some(weights) = weights.filter(|&weights| weights > 0) else {
            return Err(FormatError::Shape { tensor, shape });
        };
        let cols = shape.last().copied().unwrap_or(1);
        if !cols.is_multiple_of(ggml_type.block_weights) {
            return Err(FormatError::Row {
                tensor,
                stored: ggml_type.stored.to_string(),
                cols,
                block: ggml_type.block_weights,
            });
        }
        let blocks = weights / ggml_type.block_weights;
        let Some(len) = blocks.checked_mul(ggml_type.block_bytes) else {
            return Err(FormatError::Shape { tensor, shape });
        };
        if !offset.is_multiple_of(self.alignment) {
            return Err(FormatError::Misaligned {
                tensor,
                offset,
                alignment: self.alignment,
            });
        }
        self.tensors.push(TensorInfo {
            name: tensor,
            stored: ggml_type.stored,
            shape,
            file: 0,
            offset,
            len,
            big_endian: self.order == Order::Big,
        });
        self.tensors_left -= 1;
        Ok(State::NameLength)
    }

    /// Checks the tensors against each other and the file, and hands everything out.
    pub(super) fn finish(&mut self) -> Result<Gguf> {
        let mut tensors = std::mem::take(&mut self.tensors);
        // The header's length is at most `header_bytes` and the alignment at most
        // `MAX_ALIGNMENT`, unless the limit itself is absurd.
        let data_offset = self
            .offset
            .checked_next_multiple_of(self.alignment)
            .unwrap_or(u64::MAX);
        for tensor in &mut tensors {
            let start = data_offset.checked_add(tensor.offset);
            let end = start.and_then(|start| start.checked_add(tensor.len));
            let (Some(start), Some(end)) = (start, end) else {
                return Err(FormatError::Offset {
                    tensor: tensor.name.clone(),
                    offset: tensor.offset,
                });
            };
            tensor.offset = start;
            if let Some(len) = self.limits.file_len
                && end > len
            {
                return Err(FormatError::Truncated {
                    len,
                    inside: format!(
                        "tensor `{}`, which ends at byte {end}",
                        tensor.name.escape_debug()
                    ),
                });
            }
        }
        let mut names: Vec<_> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(FormatError::Duplicate {
                what: "tensor",
                name: pair[0].into(),
            });
        }
        Ok(Gguf {
            version: self.version,
            big_endian: self.order == Order::Big,
            metadata: std::mem::take(&mut self.metadata),
            tensors,
            alignment: self.alignment,
            data_offset,
        })
    }
}

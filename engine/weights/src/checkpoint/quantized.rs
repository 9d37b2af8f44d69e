//! Quantised matrices that consist of several tensors of the files.

use std::{borrow::Cow, ops::Range};

use super::{Checkpoint, assemble::index_by_name, big_endian};
use wisp_types::BoxFuture;

use crate::{
    error::WeightError,
    quantized::{self, JoinedTensor, QuantizationConfig, StoredTensors},
    tensor::TensorInfo,
};

impl Checkpoint {
    /// Replaces the tensors that quantised matrices consist of, such as codes and scales, by one tensor `….weight`
    /// for each matrix.
    ///
    /// # Errors
    ///
    /// If the tensors of a matrix do not fit together, or Wisp does not support their format. The checkpoint is
    /// then unchanged.
    pub fn join_quantized(&mut self, config: &QuantizationConfig) -> Result<(), WeightError> {
        let (matrices, parts) = quantized::matrices(self, config)?;
        let mut tensors = self.tensors.clone();
        tensors.retain(|tensor| !parts.contains(&tensor.name));
        tensors.extend(matrices.iter().map(|matrix| matrix.info.clone()));
        self.by_name = index_by_name(&self.files, &tensors)?;
        self.tensors = tensors;
        let matrices = matrices.into_iter().map(Box::new);
        self.add_joined(matrices.map(JoinedTensor::Matrix));
        Ok(())
    }

    /// Replaces the tensors of a GGUF file in NVFP4 by such with the scales that are stored beside them.
    ///
    /// # Errors
    ///
    /// If a scale does not fit its tensor.
    pub(super) fn join_ggml_nvfp4(&mut self) -> Result<(), WeightError> {
        let (found, parts) = quantized::ggml_nvfp4(self)?;
        if found.is_empty() {
            return Ok(());
        }
        for joined in &found {
            if let Some(index) = self.by_name.get(&joined.info.name) {
                self.tensors[*index] = joined.info.clone();
            }
        }
        self.tensors.retain(|tensor| !parts.contains(&tensor.name));
        self.by_name = index_by_name(&self.files, &self.tensors)?;
        let found = found.into_iter().map(Box::new);
        self.add_joined(found.map(JoinedTensor::GgmlNvfp4));
        Ok(())
    }

    fn add_joined(&mut self, tensors: impl Iterator<Item = JoinedTensor>) {
        let named = tensors.map(|tensor| (tensor.info().name.clone(), tensor));
        self.joined.extend(named);
    }

    /// Reads the bytes `range` of a tensor of the files.
    pub(super) async fn read_part<'a>(
        &'a self,
        tensor: &'a TensorInfo,
        range: Range<u64>,
    ) -> Result<Cow<'a, [u8]>, WeightError> {
        let file = self.files.get(tensor.file);
        let Some(remote) = file.and_then(|file| file.bytes.as_remote()) else {
            return self.part_bytes(tensor, &range);
        };
        let blocks = big_endian::whole_blocks(tensor, &range)?;
        let bytes = remote.read(tensor, blocks.clone()).await?;
        Ok(big_endian::to_little_endian(
            tensor,
            bytes,
            blocks.start,
            &range,
        ))
    }

    /// Tells a file that the bytes `range` of a tensor were used.
    pub(super) fn release_part(&self, tensor: &TensorInfo, range: Range<u64>) {
        if range.start <= range.end
            && range.end <= tensor.len
            && let Some(file) = self.files.get(tensor.file)
        {
            // The sum is inside the file, because the tensor is.
            file.bytes
                .release(tensor.offset + range.start, range.end - range.start);
        }
    }
}

impl StoredTensors for Checkpoint {
    fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(*self.by_name.get(name)?)
    }

    fn stored_bytes(
        &self,
        tensor: &TensorInfo,
        range: &Range<u64>,
    ) -> Result<Cow<'_, [u8]>, WeightError> {
        self.part_bytes(tensor, range)
    }

    fn read_stored<'a>(
        &'a self,
        tensor: &'a TensorInfo,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Cow<'a, [u8]>, WeightError>> {
        Box::pin(self.read_part(tensor, range))
    }

    fn release_stored(&self, tensor: &TensorInfo, range: Range<u64>) {
        self.release_part(tensor, range);
    }
}

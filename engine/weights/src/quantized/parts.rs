//! The tensors of files from which a matrix is put together, while it is read.

use std::{
    borrow::Cow,
    collections::HashMap,
    ops::{Deref, Range},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::stored::StoredTensors;
use crate::{error::WeightError, tensor::TensorInfo};

/// The bytes of a tensor.
pub(super) enum Part<'a> {
    Stored(Cow<'a, [u8]>),
    Kept(Arc<[u8]>),
}

impl Deref for Part<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Part::Stored(bytes) => bytes,
            Part::Kept(bytes) => bytes,
        }
    }
}

/// Tensors by their file and offset.
type ByLocation = HashMap<(usize, u64), Arc<[u8]>>;

/// Whole tensors of remote files, of which other rows will be read.
#[derive(Debug, Default)]
pub(super) struct KeptTensors(Mutex<ByLocation>);

impl KeptTensors {
    fn lock(&self) -> MutexGuard<'_, ByLocation> {
        // Poisoning is harmless: tensors are inserted whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a range of a tensor, which is kept if it is the whole of a remote one.
    pub async fn read<'a>(
        &self,
        source: &'a dyn StoredTensors,
        tensor: &'a TensorInfo,
        range: Range<u64>,
    ) -> Result<Part<'a>, WeightError> {
        let is_whole = range == (0..tensor.len);
        let key = (tensor.file, tensor.offset);
        if is_whole && let Some(bytes) = self.lock().get(&key).cloned() {
            return Ok(Part::Kept(bytes));
        }
        match source.read_stored(tensor, range).await? {
            Cow::Owned(bytes) if is_whole => {
                let bytes: Arc<[u8]> = bytes.into();
                self.lock().insert(key, bytes.clone());
                Ok(Part::Kept(bytes))
            }
            bytes => Ok(Part::Stored(bytes)),
        }
    }

    /// Reads a whole tensor.
    pub async fn whole<'a>(
        &self,
        source: &'a dyn StoredTensors,
        tensor: &'a TensorInfo,
    ) -> Result<Part<'a>, WeightError> {
        self.read(source, tensor, 0..tensor.len).await
    }

    /// Frees all tensors.
    pub fn clear(&self) {
        self.lock().clear();
    }
}

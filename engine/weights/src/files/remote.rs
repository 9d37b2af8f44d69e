//! Files that are read in pieces: from a network, or from a browser's storage.

use std::{borrow::Cow, collections::BTreeMap, ops::Range, sync::Arc};

use wisp_types::BoxFuture;

use crate::{error::WeightError, tensor::TensorInfo};

/// A file whose bytes are read in pieces, each when it is needed.
pub trait RemoteFile: Send + Sync {
    /// Returns the file's name, whose extension tells its format and which messages use.
    fn name(&self) -> String;

    /// Returns the length of the file in bytes.
    fn byte_len(&self) -> u64;

    /// Reads the bytes `range` of the file: exactly that many.
    ///
    /// # Errors
    ///
    /// If reading fails.
    fn read(&self, range: Range<u64>) -> BoxFuture<'_, Result<Vec<u8>, WeightError>>;
}

/// Reads a range of a remote file, and checks that all of it arrived.
pub(crate) async fn read_exact(
    file: &dyn RemoteFile,
    range: Range<u64>,
) -> Result<Vec<u8>, WeightError> {
    let requested = range.end.saturating_sub(range.start);
    let bytes = file.read(range).await?;
    if bytes.len() as u64 != requested {
        return Err(WeightError::Io {
            doing: "read",
            path: file.name(),
            source: std::io::ErrorKind::UnexpectedEof.into(),
        });
    }
    Ok(bytes)
}

/// A remote file, and the data of those of its tensors that were read ahead.
#[derive(Clone)]
pub(crate) struct RemoteBytes {
    file: Arc<dyn RemoteFile>,
    /// The data of tensors that were read ahead, by their offsets in the file.
    prefetched: BTreeMap<u64, Vec<u8>>,
}

impl RemoteBytes {
    pub fn new(file: Arc<dyn RemoteFile>) -> RemoteBytes {
        RemoteBytes {
            file,
            prefetched: BTreeMap::new(),
        }
    }

    pub fn byte_len(&self) -> u64 {
        self.file.byte_len()
    }

    /// Reads the data of a tensor ahead, so that [`RemoteBytes::prefetched`] returns it.
    pub async fn prefetch(&mut self, tensor: &TensorInfo) -> Result<(), WeightError> {
        let bytes = self.read(tensor, 0..tensor.len).await?.into_owned();
        self.prefetched.insert(tensor.offset, bytes);
        Ok(())
    }

    /// Returns the bytes `range` of a tensor that was read ahead.
    pub fn prefetched(&self, tensor: &TensorInfo, range: Range<usize>) -> Option<&[u8]> {
        self.prefetched.get(&tensor.offset)?.get(range)
    }

    /// Reads the bytes `range` of a tensor as they stand in the file.
    pub async fn read(
        &self,
        tensor: &TensorInfo,
        range: Range<u64>,
    ) -> Result<Cow<'_, [u8]>, WeightError> {
        let out_of_range = || tensor.out_of_range(&range);
        let start = tensor.offset.checked_add(range.start);
        let end = tensor.offset.checked_add(range.end);
        let (start, end) = start.zip(end).ok_or_else(out_of_range)?;
        Ok(Cow::Owned(read_exact(&*self.file, start..end).await?))
    }
}

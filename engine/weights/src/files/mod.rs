//! The files of a checkpoint: in memory, mapped, or read from elsewhere in pieces.

#[cfg(not(target_arch = "wasm32"))]
mod mapped;
mod remote;

use std::sync::Arc;

pub use remote::RemoteFile;
pub(crate) use remote::{RemoteBytes, read_exact};

/// The contents of one file, in memory or mapped into memory.
///
/// Made `From` a static or shared slice or a vector. [`Checkpoint::open`](crate::Checkpoint::open) maps
/// files. A clone shares the contents.
#[derive(Clone)]
pub struct FileBytes(Contents);

#[derive(Clone)]
enum Contents {
    Static(&'static [u8]),
    Shared(Arc<[u8]>),
    #[cfg(not(target_arch = "wasm32"))]
    Mapped(Arc<mapped::MappedFile>),
    Remote(RemoteBytes),
}

impl FileBytes {
    pub(crate) fn remote(remote: RemoteBytes) -> FileBytes {
        FileBytes(Contents::Remote(remote))
    }

    /// The length of the file in bytes.
    pub(crate) fn byte_len(&self) -> u64 {
        match self.as_remote() {
            Some(remote) => remote.byte_len(),
            None => self.as_slice().len() as u64,
        }
    }

    /// The bytes; empty for a remote file.
    pub(crate) fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Contents::Static(bytes) => bytes,
            Contents::Shared(bytes) => bytes,
            #[cfg(not(target_arch = "wasm32"))]
            Contents::Mapped(map) => map,
            Contents::Remote(_) => &[],
        }
    }

    pub(crate) fn as_remote(&self) -> Option<&RemoteBytes> {
        match &self.0 {
            Contents::Remote(remote) => Some(remote),
            _ => None,
        }
    }

    pub(crate) fn as_remote_mut(&mut self) -> Option<&mut RemoteBytes> {
        match &mut self.0 {
            Contents::Remote(remote) => Some(remote),
            _ => None,
        }
    }

    /// Lets the system take back the memory of a part of the file, if it is mapped.
    pub(crate) fn release(&self, _offset: u64, _len: u64) {
        #[cfg(unix)]
        if let Contents::Mapped(map) = &self.0 {
            map.release(_offset, _len);
        }
    }

    /// Checks that a mapped file still has the bytes that were mapped.
    pub(crate) fn check_length(&self) -> std::io::Result<()> {
        match &self.0 {
            #[cfg(not(target_arch = "wasm32"))]
            Contents::Mapped(map) => map.check_length(),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FileBytes").field(&self.byte_len()).finish()
    }
}

impl From<&'static [u8]> for FileBytes {
    fn from(bytes: &'static [u8]) -> FileBytes {
        FileBytes(Contents::Static(bytes))
    }
}

impl From<Arc<[u8]>> for FileBytes {
    fn from(bytes: Arc<[u8]>) -> FileBytes {
        FileBytes(Contents::Shared(bytes))
    }
}

impl From<Vec<u8>> for FileBytes {
    fn from(bytes: Vec<u8>) -> FileBytes {
        FileBytes(Contents::Shared(bytes.into()))
    }
}

/// One file of a checkpoint. A clone shares the contents.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// The name or path, for messages.
    pub name: String,
    pub bytes: FileBytes,
}

/// Maps a file into memory. Nobody may change the file while it is mapped.
///
/// # Errors
///
/// If the path is not a regular file, or the system cannot open or map it.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn map_file(path: &std::path::Path) -> Result<File, crate::error::WeightError> {
    let contents = match mapped::map(path)? {
        Some(map) => Contents::Mapped(Arc::new(map)),
        None => Contents::Static(&[]),
    };
    Ok(File {
        name: path.display().to_string(),
        bytes: FileBytes(contents),
    })
}

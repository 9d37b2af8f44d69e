//! Files that are mapped into memory.

use std::{fs::File, io, ops::Deref, path::Path};

use memmap2::Mmap;

use crate::error::WeightError;

/// A file that is mapped into memory.
pub(super) struct MappedFile {
    map: Mmap,
    file: File,
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl MappedFile {
    /// Checks that the file still has the bytes that were mapped. The system ends a process that reads others.
    ///
    /// # Errors
    ///
    /// If the file was cut since.
    pub fn check_length(&self) -> io::Result<()> {
        let len = self.file.metadata()?.len();
        match len < self.map.len() as u64 {
            true => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!(
                    "it was cut from {} to {len} bytes while it was in use: load the model again",
                    self.map.len()
                ),
            )),
            false => Ok(()),
        }
    }

    /// Lets the system take back the pages of a part of the map, which does not have to succeed.
    #[cfg(unix)]
    pub fn release(&self, offset: u64, len: u64) {
        let (Ok(offset), Ok(len)) = (usize::try_from(offset), usize::try_from(len)) else {
            return;
        };
        let map = &self.map;
        if offset.checked_add(len).is_none_or(|end| end > map.len()) {
            return;
        }
        // SAFETY: the map is a shared, read-only map of a file. The system fills released pages from the file
        // again when they are next read, with the same bytes, so existing borrows see no change.
        let _ =
            unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, len) };
    }
}

/// Maps a file into memory; `None` if it is empty. Nobody may change the file while it is mapped.
///
/// # Errors
///
/// If the path is not a regular file, or the system cannot open or map it.
pub(super) fn map(path: &Path) -> Result<Option<MappedFile>, WeightError> {
    let name = path.display().to_string();
    let io = |doing| {
        let path = name.clone();
        move |source| WeightError::Io {
            doing,
            path,
            source,
        }
    };
    let file = wisp_files::open_regular(path).map_err(io("open"))?;
    let metadata = file.metadata().map_err(io("open"))?;
    // Not every system can map an empty file. The parsers report what is wrong with one.
    if metadata.len() == 0 {
        return Ok(None);
    }
    // SAFETY: the map is only read. If another process changed the file meanwhile, the map's contents
    // would change although they are borrowed as shared slices; the documentation of `Checkpoint::open`
    // forbids that, as every program that maps its files must.
    let map = unsafe { Mmap::map(&file) }.map_err(io("map"))?;
    Ok(Some(MappedFile { map, file }))
}

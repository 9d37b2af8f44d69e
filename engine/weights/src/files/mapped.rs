//! Files that are mapped into memory.

use std::path::Path;

use crate::error::WeightError;

/// Maps a file into memory; `None` if it is empty. Nobody may change the file while it is mapped.
///
/// # Errors
///
/// If the path is not a regular file, or the system cannot open or map it.
pub(super) fn map(path: &Path) -> Result<Option<memmap2::Mmap>, WeightError> {
    let name = path.display().to_string();
    let io = |doing| {
        let path = name.clone();
        move |source| WeightError::Io {
            doing,
            path,
            source,
        }
    };
    let file = std::fs::File::open(path).map_err(io("open"))?;
    let metadata = file.metadata().map_err(io("open"))?;
    if !metadata.is_file() {
        return Err(WeightError::NoCheckpoint {
            path: name,
            found: "not a regular file".into(),
        });
    }
    // Not every system can map an empty file. The parsers report what is wrong with one.
    if metadata.len() == 0 {
        return Ok(None);
    }
    // SAFETY: the map is only read. If another process changed the file meanwhile, the map's contents
    // would change although they are borrowed as shared slices; the documentation of `Checkpoint::open`
    // forbids that, as every program that maps its files must.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(io("map"))?;
    Ok(Some(map))
}

/// Lets the system take back the pages of a part of a map, which does not have to succeed.
#[cfg(unix)]
pub(super) fn release(map: &memmap2::Mmap, offset: u64, len: u64) {
    let (Ok(offset), Ok(len)) = (usize::try_from(offset), usize::try_from(len)) else {
        return;
    };
    if offset.checked_add(len).is_none_or(|end| end > map.len()) {
        return;
    }
    // SAFETY: the map is a shared, read-only map of a file. The system fills released pages from the file
    // again when they are next read, with the same bytes, so existing borrows see no change.
    let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, len) };
}

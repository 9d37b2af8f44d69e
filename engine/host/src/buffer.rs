//! Memory of the host device.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Alignment of a buffer in bytes: a cache line, and the widest vectors' size.
const ALIGN: usize = 64;

/// Zeroed, shared memory of a fixed size; a clone is the same memory.
///
/// A lock makes it sound: a call of a twin, a read and a write each hold it for as long as they
/// touch the bytes. Untouched memory costs nothing where the system zeroes pages when they are
/// first used.
#[derive(Clone)]
pub struct HostBuffer {
    storage: Arc<Storage>,
}

struct Storage {
    /// What the system gave.
    allocation: NonNull<u8>,
    /// The first aligned byte of it.
    bytes: NonNull<u8>,
    layout: Layout,
    len: usize,
    lock: Mutex<()>,
}

// SAFETY: the bytes are plain memory, owned by the storage, and only touched under its lock.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Drop for Storage {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) };
    }
}

/// The system has no memory of this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host has no {bytes} bytes of memory left")]
pub struct OutOfMemory {
    /// Bytes that were asked for.
    pub bytes: usize,
}

/// A read or write past the end of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bytes {offset}..{offset}+{bytes} lie outside of a buffer of {len}")]
pub struct OutOfBounds {
    /// Where the access begins.
    pub offset: usize,
    /// Bytes of the access.
    pub bytes: usize,
    /// Bytes of the buffer.
    pub len: usize,
}

impl HostBuffer {
    /// Allocates `len` bytes of zeros, aligned to 64 bytes.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn new(len: usize) -> Result<Self, OutOfMemory> {
        let error = OutOfMemory { bytes: len };
        // Aligned by hand: for more than its own alignment the system's allocator writes the zeros,
        // which makes every page take memory.
        let bytes = len.max(1).checked_add(ALIGN).ok_or(error)?;
        let layout = Layout::from_size_align(bytes, 1).map_err(|_| error)?;
        // SAFETY: the layout's size is not zero.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(error)?;
        let padding = allocation.align_offset(ALIGN);
        // SAFETY: the padding is less than `ALIGN`, by which the allocation is longer than `len`.
        let bytes = unsafe { allocation.add(padding) };
        let lock = Mutex::new(());
        Ok(HostBuffer {
            storage: Arc::new(Storage {
                allocation,
                bytes,
                layout,
                len,
                lock,
            }),
        })
    }

    /// Size in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.storage.len
    }

    /// Copies the bytes from `offset` on into `out`.
    ///
    /// # Errors
    /// When they reach past the end.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfBounds> {
        self.with(offset, out.len(), |bytes| out.copy_from_slice(bytes))
    }

    /// Copies `data` into the bytes from `offset` on.
    ///
    /// # Errors
    /// When they reach past the end.
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<(), OutOfBounds> {
        self.with(offset, data.len(), |bytes| bytes.copy_from_slice(data))
    }

    /// Lends `len` bytes from `offset` on, under the buffer's lock: `f` must not use the buffer
    /// in any other way.
    ///
    /// # Errors
    /// When they reach past the end.
    pub fn with<R>(
        &self,
        offset: usize,
        len: usize,
        f: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, OutOfBounds> {
        if offset.checked_add(len).is_none_or(|end| end > self.len()) {
            return Err(OutOfBounds {
                offset,
                bytes: len,
                len: self.len(),
            });
        }
        let _guard = self.lock();
        // SAFETY: the range lies within the allocation, all of which is initialised, and the lock
        // keeps everybody else out.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(self.storage.bytes.as_ptr().add(offset), len) };
        Ok(f(bytes))
    }

    /// Takes the lock. A panic in its last holder left at worst other numbers in the buffer.
    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        self.storage
            .lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the buffer begins.
    pub(super) fn address(&self) -> NonNull<u8> {
        self.storage.bytes
    }
}

impl std::fmt::Debug for HostBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostBuffer")
            .field("len", &self.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_zeroed_aligned_and_shared() {
        let buffer = HostBuffer::new(100).unwrap();
        assert_eq!(buffer.address().as_ptr() as usize % ALIGN, 0);
        buffer.clone().write(3, &[1, 2]).unwrap();
        let mut bytes = [9; 4];
        buffer.read(2, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 1, 2, 0]);
    }

    #[test]
    fn wrong_ranges_and_sizes_are_errors() {
        let buffer = HostBuffer::new(8).unwrap();
        assert_eq!(
            buffer.write(7, &[0; 2]).unwrap_err().to_string(),
            "bytes 7..7+2 lie outside of a buffer of 8"
        );
        assert_eq!(
            buffer
                .read(usize::MAX, &mut [0; 2])
                .unwrap_err()
                .to_string(),
            format!("bytes {0}..{0}+2 lie outside of a buffer of 8", usize::MAX)
        );
        assert_eq!(
            HostBuffer::new(usize::MAX).unwrap_err().to_string(),
            format!("the host has no {} bytes of memory left", usize::MAX)
        );
        assert!(HostBuffer::new(0).unwrap().read(0, &mut []).is_ok());
    }
}

//! Memory of the host device.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Alignment of a buffer in bytes: a cache line, and the widest SIMD vector.
const ALIGN: usize = 64;

/// The least size in bytes of a buffer that asks for huge pages. Neighbouring buffers share such pages.
const LARGE: usize = 1 << 20;

/// Asks the system to use huge pages for memory. With small ones, reading weights in order spends a quarter of the
/// time on looking up the addresses of pages.
#[cfg(target_os = "linux")]
fn advise_huge_pages(memory: NonNull<u8>, len: usize) {
    use rustix::mm::{Advice, madvise};

    let before = memory.as_ptr() as usize % rustix::param::page_size();
    let start = memory.as_ptr().wrapping_sub(before);
    // It is only advice: where it cannot be followed, the pages stay small.
    // SAFETY: the advice changes no contents, whoever else uses the first and the last page.
    let _ = unsafe { madvise(start.cast(), len + before, Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_memory: NonNull<u8>, _len: usize) {}

/// Shared memory of a fixed size that starts out as zeros. Clones share the same memory.
///
/// A lock guards the bytes: a twin's call, a read and a write each hold it while they touch them.
/// Where the system zeroes pages at first use, untouched pages take no physical memory. The pages of large buffers may
/// be huge, 2 MiB on most systems.
#[derive(Clone)]
pub struct HostBuffer {
    storage: Arc<Storage>,
}

struct Storage {
    /// The allocation as the system returned it.
    allocation: NonNull<u8>,
    /// The first aligned byte of the allocation.
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

/// Occurs when the system cannot allocate a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host has no {bytes} bytes of memory left")]
pub struct OutOfMemory {
    /// Requested bytes.
    pub bytes: usize,
}

/// Occurs when a read or write reaches past the end of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bytes {offset}..{offset}+{bytes} lie outside of a buffer of {len}")]
pub struct OutOfBounds {
    /// Offset of the access in bytes.
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
    /// If the system has no memory of this size.
    pub fn new(len: usize) -> Result<Self, OutOfMemory> {
        let error = OutOfMemory { bytes: len };
        // Aligned by hand: for an alignment above its own, the system's allocator writes the zeros
        // itself, which makes every page take physical memory.
        let bytes = len.max(1).checked_add(ALIGN).ok_or(error)?;
        let layout = Layout::from_size_align(bytes, 1).map_err(|_| error)?;
        // SAFETY: the layout's size is not zero.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(error)?;
        if len >= LARGE {
            advise_huge_pages(allocation, layout.size());
        }
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

    /// Returns the size in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.storage.len
    }

    /// Copies the bytes from `offset` on into `out`.
    ///
    /// # Errors
    /// If they reach past the end of the buffer.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfBounds> {
        self.with(offset, out.len(), |bytes| out.copy_from_slice(bytes))
    }

    /// Copies `data` into the bytes from `offset` on.
    ///
    /// # Errors
    /// If they reach past the end of the buffer.
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<(), OutOfBounds> {
        self.with(offset, data.len(), |bytes| bytes.copy_from_slice(data))
    }

    /// Calls `f` with `len` bytes from `offset` on while the buffer is locked. `f` must not use the
    /// buffer in any other way.
    ///
    /// # Errors
    /// If they reach past the end of the buffer.
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
        // excludes all other users.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(self.storage.bytes.as_ptr().add(offset), len) };
        Ok(f(bytes))
    }

    /// Takes the lock. Poisoning is harmless: a panic leaves at worst unexpected numbers in the
    /// buffer.
    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        self.storage
            .lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the address of the first byte.
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

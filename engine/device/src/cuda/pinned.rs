//! Page-locked host memory, which the device copies to and from while the program goes on.

use std::{
    ffi::c_void,
    ptr::NonNull,
    slice,
    sync::{Arc, Mutex, PoisonError},
};

use cudarc::driver::{CudaContext, DriverError, result};

use super::objects::make_current;

/// Bytes of free page-locked memory that are kept for later reads.
const KEPT: usize = 16 << 20;

/// A block of page-locked memory.
#[derive(Debug)]
pub(super) struct Pinned {
    at: NonNull<u8>,
    bytes: usize,
    context: Arc<CudaContext>,
}

// SAFETY: the block owns its memory, which any thread may access.
unsafe impl Send for Pinned {}
// SAFETY: it changes through `&mut` only, and by copies of the device, for which the owner waits.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Allocates `bytes` zeros.
    pub fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Pinned, DriverError> {
        context.bind_to_thread()?;
        // SAFETY: the memory is freed once, in `drop`.
        let raw = unsafe { result::malloc_host(bytes, 0) }?;
        let null = DriverError(cudarc::driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        let at = NonNull::new(raw.cast::<u8>()).ok_or(null)?;
        // SAFETY: the driver has allocated as many bytes.
        unsafe { at.write_bytes(0, bytes) };
        Ok(Pinned {
            at,
            bytes,
            context: context.clone(),
        })
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the memory has as many bytes, and they are initialised.
        unsafe { slice::from_raw_parts(self.at.as_ptr(), self.bytes) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has them.
        unsafe { slice::from_raw_parts_mut(self.at.as_ptr(), self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        make_current(&self.context);
        let at: *mut c_void = self.at.as_ptr().cast();
        // SAFETY: the memory is from `malloc_host`, and copies to it are over: owners wait for them.
        self.context.record_err(unsafe { result::free_host(at) });
    }
}

/// Blocks that are free for the next read: allocating one stops the device.
#[derive(Debug, Default)]
pub(super) struct PinnedPool {
    free: Mutex<Vec<Pinned>>,
}

impl PinnedPool {
    /// Returns a block of at least `bytes`.
    pub fn take(&self, context: &Arc<CudaContext>, bytes: usize) -> Result<Pinned, DriverError> {
        // Poisoning is harmless: blocks are moved whole.
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = (0..free.len()).filter(|at| free[*at].bytes >= bytes);
        if let Some(smallest) = fitting.min_by_key(|at| free[*at].bytes) {
            return Ok(free.swap_remove(smallest));
        }
        drop(free);
        // Powers of two, so that blocks serve reads of other sizes, unless they are not kept.
        let bytes = match bytes > KEPT {
            true => bytes,
            false => bytes.max(1 << 12).next_power_of_two(),
        };
        Pinned::new(context, bytes)
    }

    /// Keeps a block for another read, unless enough are kept.
    pub fn give_back(&self, block: Pinned) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: usize = free.iter().map(|block| block.bytes).sum();
        if kept + block.bytes <= KEPT {
            free.push(block);
        }
    }
}

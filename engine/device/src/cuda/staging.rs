//! Uploads: the program copies to one block of page-locked memory while the device copies from another.

use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream, DriverError, result, sys::CUdeviceptr};

use super::pinned::Pinned;

/// Bytes of a block: copies of less do not reach a bus's full rate.
const BLOCK_BYTES: usize = 4 << 20;
const BLOCKS: usize = 2;

/// The blocks, filled in turn.
#[derive(Debug)]
pub(super) struct Staging {
    stream: Arc<CudaStream>,
    blocks: Vec<Block>,
    /// The block that is being filled, and how much of it is.
    current: usize,
    used: usize,
}

#[derive(Debug)]
struct Block {
    memory: Pinned,
    /// Reached when the device has copied everything from the block.
    copied: Option<CudaEvent>,
}

impl Staging {
    pub fn new(stream: &Arc<CudaStream>) -> Staging {
        Staging {
            stream: stream.clone(),
            blocks: Vec::new(),
            current: 0,
            used: 0,
        }
    }

    /// Starts to copy `data` to the device, in the stream's order; it may be reused at once.
    ///
    /// # Safety
    ///
    /// The device's memory at `target` has as many bytes, and is not freed before the stream gets there.
    pub unsafe fn write(
        &mut self,
        mut target: CUdeviceptr,
        mut data: &[u8],
    ) -> Result<(), DriverError> {
        while !data.is_empty() {
            if self.used == BLOCK_BYTES || self.blocks.is_empty() {
                self.next_block()?;
            }
            let bytes = data.len().min(BLOCK_BYTES - self.used);
            let (part, rest) = data.split_at(bytes);
            let range = self.used..self.used + bytes;
            let staged = &mut self.blocks[self.current].memory.bytes_mut()[range];
            staged.copy_from_slice(part);
            let stream = self.stream.cu_stream();
            // SAFETY: the caller promises the target; the block is not reused before the copy is over.
            unsafe { result::memcpy_htod_async(target, staged, stream) }?;
            self.used += bytes;
            target += bytes as u64;
            data = rest;
        }
        Ok(())
    }

    /// Goes on with the next block, as soon as the device has copied what it held.
    fn next_block(&mut self) -> Result<(), DriverError> {
        if let Some(full) = self.blocks.get_mut(self.current) {
            full.copied = Some(self.stream.record_event(None)?);
        }
        if self.blocks.len() < BLOCKS {
            let memory = Pinned::new(self.stream.context(), BLOCK_BYTES)?;
            self.blocks.push(Block {
                memory,
                copied: None,
            });
            self.current = self.blocks.len() - 1;
        } else {
            self.current = (self.current + 1) % BLOCKS;
            if let Some(copied) = self.blocks[self.current].copied.take() {
                copied.synchronize()?;
            }
        }
        self.used = 0;
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // The blocks are freed next: the device may still be copying from them.
        let context = self.stream.context();
        context.record_err(self.stream.synchronize());
    }
}

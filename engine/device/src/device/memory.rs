//! Memory of a device: allocating, writing, reading, copying.

use std::{ops::Range, sync::Arc};

use wisp_types::allocated_bytes;

use super::Device;
use crate::{Buffer, DeviceError, ReadFuture, Usage};

impl Device {
    /// Allocates `bytes` zeros, rounded up to a multiple of 16. `label` names the buffer in errors.
    ///
    /// # Errors
    ///
    /// If the device's limit or its memory is exceeded.
    pub fn allocate(&self, label: &str, bytes: u64, usage: Usage) -> Result<Buffer, DeviceError> {
        let info = self.info();
        let limit = info.capabilities.max_buffer_bytes;
        let rounded = allocated_bytes(bytes);
        if rounded > limit {
            return Err(DeviceError::BufferTooLarge {
                label: label.into(),
                bytes,
                device: info.name.clone(),
                limit,
            });
        }
        let object = self.backend.allocate(label, rounded, usage)?;
        Ok(Buffer {
            label: label.into(),
            bytes: rounded,
            usage,
            device: self.id,
            object,
            entry: Arc::new(self.ledger.enter(rounded)),
        })
    }

    /// Checks that a buffer is this device's.
    ///
    /// # Errors
    ///
    /// If it is another device's.
    pub fn check_owns(&self, buffer: &Buffer) -> Result<(), DeviceError> {
        match buffer.device == self.id {
            true => Ok(()),
            false => Err(DeviceError::ForeignObject(buffer.label.to_string())),
        }
    }

    fn check_words(&self, buffer: &Buffer, range: &Range<u64>) -> Result<(), DeviceError> {
        self.check_owns(buffer)?;
        buffer.check_words(range)
    }

    /// Writes `data` at `offset` (both multiples of 4 bytes): after everything recorded before, and
    /// before everything recorded later.
    ///
    /// # Errors
    ///
    /// If the buffer is another device's, the range is outside of it or not aligned, or the device was
    /// lost.
    pub fn write(&self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.check_words(buffer, &(offset..end_of(offset, data.len() as u64)))?;
        match data.is_empty() {
            true => Ok(()),
            false => self.backend.write(buffer, offset, data),
        }
    }

    /// Reads `range` (multiples of 4 bytes) as it is after everything recorded before this call.
    ///
    /// The read starts now, and starts the recorded work too: what is recorded before the returned future
    /// is awaited comes after it.
    ///
    /// # Errors
    ///
    /// If the buffer is another device's, the range is outside of it or not aligned, or the device was
    /// lost.
    pub fn read(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture {
        let ready = |bytes| Box::pin(std::future::ready(bytes)) as ReadFuture;
        match self.check_words(buffer, &range) {
            Ok(()) if range.is_empty() => ready(Ok(Vec::new())),
            Ok(()) => self.backend.read(buffer, range),
            Err(error) => ready(Err(error)),
        }
    }

    /// [`Self::read`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn read_blocking(
        &self,
        buffer: &Buffer,
        range: Range<u64>,
    ) -> Result<Vec<u8>, DeviceError> {
        pollster::block_on(self.read(buffer, range))
    }

    /// Copies `range` of a buffer to another one, from `at` on (all multiples of 4 bytes): after everything
    /// recorded before, and before everything recorded later.
    ///
    /// # Errors
    ///
    /// If a buffer is another device's, a range is outside its buffer or not aligned, both buffers are the
    /// same, or the device was lost.
    pub fn copy(
        &self,
        from: &Buffer,
        range: Range<u64>,
        to: &Buffer,
        at: u64,
    ) -> Result<(), DeviceError> {
        self.check_words(from, &range)?;
        self.check_words(to, &(at..end_of(at, range.end - range.start)))?;
        if from.is(to) {
            return Err(DeviceError::CopyWithin {
                label: from.label.to_string(),
            });
        }
        match range.is_empty() {
            true => Ok(()),
            false => self.backend.copy(from, range, to, at),
        }
    }

    /// Copies the first `bytes` (a multiple of 4) of a buffer to the start of another device's: through
    /// the program's memory, or directly if both buffers are on one device.
    ///
    /// # Errors
    ///
    /// If a buffer is too small, is not of its device, or a device was lost.
    pub async fn transfer(
        &self,
        from: &Buffer,
        bytes: u64,
        to: (&Device, &Buffer),
    ) -> Result<(), DeviceError> {
        let (device, buffer) = to;
        if self == device {
            return self.copy(from, 0..bytes, buffer, 0);
        }
        let data = self.read(from, 0..bytes).await?;
        device.write(buffer, 0, &data)
    }

    /// [`Self::transfer`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::transfer`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn transfer_blocking(
        &self,
        from: &Buffer,
        bytes: u64,
        to: (&Device, &Buffer),
    ) -> Result<(), DeviceError> {
        pollster::block_on(self.transfer(from, bytes, to))
    }

    /// Bytes of memory that are free, where the device or the system says so.
    pub fn free_memory(&self) -> Option<u64> {
        self.backend.free_memory()
    }

    /// Bytes that the driver has allocated for this device, where it says so. Memory that was freed counts
    /// until everything that uses it has run, and wgpu's own memory counts too.
    pub fn driver_allocated(&self) -> Option<u64> {
        self.backend.driver_allocated()
    }

    /// Bytes of this device's buffers: now, and at most so far.
    pub fn allocated(&self) -> (u64, u64) {
        self.ledger.bytes()
    }
}

/// The end of a range of bytes; past the end of any buffer if it overflows.
fn end_of(start: u64, bytes: u64) -> u64 {
    start.saturating_add(bytes)
}

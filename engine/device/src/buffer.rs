//! Memory of a device, and ranges of it that kernels are given.

use std::{ops::Range, sync::Arc};

use wisp_types::BoxFuture;

use crate::{device_id::DeviceId, error::DeviceError, ledger::Entry, object::BackendObject};

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Tensors, which kernels read and write.
    Storage,
    /// Parameters of kernels.
    Uniform,
}

/// The bytes of a [read](crate::Device::read), ready when the device has reached it.
pub type ReadFuture = BoxFuture<'static, Result<Vec<u8>, DeviceError>>;

/// The alignment in bytes of what is written, read and copied.
pub(crate) const WORD: u64 = 4;

/// Memory of a device, from [`Device::allocate`](crate::Device::allocate). Cloning shares it; it is freed
/// when the last clone is dropped and everything that uses it has run.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub(crate) label: Arc<str>,
    pub(crate) bytes: u64,
    pub(crate) usage: Usage,
    pub(crate) device: DeviceId,
    /// The backend's memory.
    pub(crate) object: BackendObject,
    /// Counts the buffer until its last clone is dropped.
    pub(crate) entry: Arc<Entry>,
}

impl Buffer {
    /// The name that error messages give the buffer.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The buffer's size in bytes, a multiple of 16.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What the buffer is for.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the whole buffer as a binding.
    pub fn whole(&self) -> BufferSlice {
        self.slice(0..self.bytes)
    }

    /// Returns part of the buffer as a binding. `range` is in bytes and starts at a multiple of 256;
    /// [`Device::bind`](crate::Device::bind) checks it.
    pub fn slice(&self, range: Range<u64>) -> BufferSlice {
        BufferSlice {
            buffer: self.clone(),
            range,
        }
    }

    /// Returns true if both are the same memory.
    pub fn is(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.entry, &other.entry)
    }

    /// Checks that the buffer has these bytes.
    pub(crate) fn check_range(&self, range: &Range<u64>) -> Result<(), DeviceError> {
        match range.start <= range.end && range.end <= self.bytes {
            true => Ok(()),
            false => Err(DeviceError::OutOfBounds {
                label: self.label.to_string(),
                start: range.start,
                end: range.end,
                bytes: self.bytes,
            }),
        }
    }

    /// Checks that the buffer has these bytes, and that they begin and end at whole words.
    pub(crate) fn check_words(&self, range: &Range<u64>) -> Result<(), DeviceError> {
        self.check_range(range)?;
        match range.start.is_multiple_of(WORD) && range.end.is_multiple_of(WORD) {
            true => Ok(()),
            false => Err(self.misaligned(range, WORD)),
        }
    }

    pub(crate) fn misaligned(&self, range: &Range<u64>, alignment: u64) -> DeviceError {
        DeviceError::Misaligned {
            label: self.label.to_string(),
            start: range.start,
            end: range.end,
            alignment,
        }
    }
}

/// A range of a buffer, as a kernel sees it.
#[derive(Clone, Debug)]
pub struct BufferSlice {
    pub(crate) buffer: Buffer,
    pub(crate) range: Range<u64>,
}

impl BufferSlice {
    /// Returns the buffer that the range is part of.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The bytes of the buffer.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// The length in bytes of a range that was checked.
    pub(crate) fn bytes(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }
}

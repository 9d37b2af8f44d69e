//! Buffers and bind groups as this backend makes them.

use std::sync::atomic::AtomicU64;

use crate::{buffer::Buffer, error::DeviceError};

/// A buffer as this backend makes it.
#[derive(Debug)]
pub(super) struct WgpuBuffer {
    pub raw: wgpu::Buffer,
    /// The last batch of recorded commands that uses the buffer; 0 is none.
    pub last_batch: AtomicU64,
}

/// A bind group as this backend makes it.
#[derive(Debug)]
pub(super) struct WgpuBindGroup {
    pub raw: wgpu::BindGroup,
    pub buffers: Vec<Buffer>,
}

/// Returns a buffer's object.
pub(super) fn buffer_of(buffer: &Buffer) -> Result<&WgpuBuffer, DeviceError> {
    buffer.object.get(&buffer.label)
}

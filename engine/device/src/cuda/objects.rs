//! What the backend keeps behind buffers, pipelines and bind groups.

use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaStream, result,
    sys::{CUdeviceptr, CUfunction, CUmodule},
};
use naga_cuda::Parameter;

use crate::{buffer::Buffer, error::DeviceError};

/// Makes a context current for something that is dropped. `bind_to_thread` would rather return an earlier error.
pub(super) fn make_current(context: &CudaContext) {
    // SAFETY: the context is alive.
    context.record_err(unsafe { result::ctx::set_current(context.cu_ctx()) });
}

/// Memory of a device.
#[derive(Debug)]
pub(super) struct CudaBuffer {
    pub address: CUdeviceptr,
    /// Whether it is part of the driver's pool.
    pub pooled: bool,
    pub stream: Arc<CudaStream>,
}

impl Drop for CudaBuffer {
    fn drop(&mut self) {
        let context = self.stream.context();
        make_current(context);
        if !self.pooled {
            // SAFETY: the stream is alive.
            context.record_err(unsafe { result::stream::synchronize(self.stream.cu_stream()) });
        }
        // SAFETY: the memory was allocated so and nobody has its address any more. What was launched before runs
        // first: the pool frees in the stream's order, and for plain memory the device was waited for.
        context.record_err(unsafe {
            match self.pooled {
                true => result::free_async(self.address, self.stream.cu_stream()),
                false => result::free_sync(self.address),
            }
        });
    }
}

/// Returns a buffer's memory.
pub(super) fn buffer_of(buffer: &Buffer) -> Result<&CudaBuffer, DeviceError> {
    buffer.object.get(&buffer.label)
}

/// A kernel's machine code, loaded.
#[derive(Debug)]
pub(super) struct CudaKernel {
    pub function: CUfunction,
    pub workgroup_size: [u32; 3],
    pub parameters: Vec<Parameter>,
    pub module: CUmodule,
    pub stream: Arc<CudaStream>,
}

// SAFETY: both handles may be used by every thread that has the context current.
unsafe impl Send for CudaKernel {}
// SAFETY: as above; launches do not change them.
unsafe impl Sync for CudaKernel {}

impl Drop for CudaKernel {
    fn drop(&mut self) {
        let context = self.stream.context();
        make_current(context);
        // Its launches keep the pipeline only until they are recorded.
        // SAFETY: the stream is alive.
        context.record_err(unsafe { result::stream::synchronize(self.stream.cu_stream()) });
        // SAFETY: nothing that uses the module is running, or can be launched.
        context.record_err(unsafe { result::module::unload(self.module) });
    }
}

/// The memory bound to a kernel, by binding number.
#[derive(Debug)]
pub(super) struct CudaBindGroup {
    pub bindings: Vec<Bound>,
    /// Keeps the memory, and names it in errors.
    pub buffers: Vec<Buffer>,
}

/// A range of memory, as a kernel gets it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub address: CUdeviceptr,
    pub bytes: u32,
}

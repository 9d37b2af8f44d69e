//! What a backend implements. [`Device`](crate::Device) checks what it is given and calls a backend with
//! buffers, pipelines and bind groups of its own device only.

use std::{fmt, ops::Range};

#[cfg(not(target_arch = "wasm32"))]
use wisp_files::DiskCache;
use wisp_host::Twin;
use wisp_shaders::Kernel;
use wisp_types::{BoxFuture, DeviceInfo};

use crate::{
    buffer::{Buffer, BufferSlice, ReadFuture, Usage},
    error::DeviceError,
    object::BackendObject,
    pipeline::{BindGroup, Dispatch, Pipeline},
    timing::{Clock, Granularity, Spans},
};

/// Memory, kernels and commands of one kind of device.
///
/// Ranges are within their buffers and aligned to words; buffers, pipelines and bind groups are this
/// device's; bind groups fit their kernels.
pub(crate) trait Backend: Send + Sync + fmt::Debug {
    /// What the device is and can do.
    fn info(&self) -> &DeviceInfo;

    /// Allocates `bytes` zeros.
    fn allocate(&self, label: &str, bytes: u64, usage: Usage)
    -> Result<BackendObject, DeviceError>;

    /// Writes after everything recorded before and before everything recorded later.
    fn write(&self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError>;

    /// Starts to read what the buffer holds after everything recorded before.
    fn read(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture;

    /// Records a copy between two buffers, or copies at once.
    fn copy(
        &self,
        from: &Buffer,
        range: Range<u64>,
        to: &Buffer,
        at: u64,
    ) -> Result<(), DeviceError>;

    /// Compiles a kernel that keeps to its memory and comes to an end, whatever it is given.
    fn pipeline(&self, kernel: &'static Kernel) -> Result<BackendObject, DeviceError>;

    /// Compiles a built-in kernel that checks nothing when it runs, where the backend has such a thing.
    ///
    /// # Safety
    ///
    /// As [`Device::unchecked_pipeline`](crate::Device::unchecked_pipeline).
    unsafe fn unchecked_pipeline(
        &self,
        kernel: &'static Kernel,
    ) -> Result<BackendObject, DeviceError> {
        self.pipeline(kernel)
    }

    /// Makes a pipeline of a caller's twin, where the backend runs twins.
    fn twin_pipeline(&self, _twin: Twin) -> Option<BackendObject> {
        None
    }

    /// Binds memory to a kernel.
    fn bind(
        &self,
        kernel: &'static Kernel,
        bindings: &[BufferSlice],
    ) -> Result<BackendObject, DeviceError>;

    /// Checks what a pipeline needs of the memory that is bound to it, beyond what [`Self::bind`] has checked.
    fn check_dispatch(&self, _pipeline: &Pipeline, _group: &BindGroup) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Records dispatches, or runs them at once.
    fn record(&self, dispatches: &[Dispatch]) -> Result<(), DeviceError>;

    /// Prepares dispatches that are recorded again and again; `None` if that makes nothing faster.
    fn prepare(&self, _dispatches: &[Dispatch]) -> Result<Option<BackendObject>, DeviceError> {
        Ok(None)
    }

    /// Records what [`Self::prepare`] has returned.
    fn replay(&self, _prepared: &BackendObject) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Starts everything recorded so far.
    fn submit(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// What `submit_timed` measures with.
    fn clock(&self) -> Clock;

    /// Runs dispatches in a submission of their own and measures them.
    fn submit_timed(
        &self,
        dispatches: &[Dispatch],
        granularity: Granularity,
    ) -> Result<Spans, DeviceError>;

    /// Submits what was recorded and waits for it.
    fn finish(&self) -> BoxFuture<'_, Result<(), DeviceError>>;

    /// Bytes of memory that are free, where that is known.
    fn free_memory(&self) -> Option<u64>;

    /// Bytes that the driver has allocated, where that is known.
    fn driver_allocated(&self) -> Option<u64> {
        None
    }

    /// Takes compiled pipelines from a cache on disk, and will save them there.
    #[cfg(not(target_arch = "wasm32"))]
    fn use_cache(&self, _cache: &DiskCache) {}

    /// Saves pipelines that were compiled since to the cache.
    #[cfg(not(target_arch = "wasm32"))]
    fn save_cache(&self) {}
}

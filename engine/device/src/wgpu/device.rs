//! An adapter, opened through wgpu.

use std::sync::{Mutex, MutexGuard, PoisonError};

use wisp_shaders::Kernel;
use wisp_types::DeviceInfo;

use super::{
    errors::ErrorSlot, pipelines::Pipelines, poller::Poller, recorder::Recorder, uploads::Uploads,
};
use crate::{compiled::Checks, error::DeviceError, object::BackendObject};

/// What a user can do whose DX12 rejects a kernel.
const COMPILER_REMEDY: &str = "Put dxcompiler.dll, Direct3D's current compiler, beside the program or on PATH, or use the GPU through Vulkan.";

/// An adapter, opened through wgpu.
#[derive(Debug)]
pub(super) struct WgpuDevice {
    pub info: DeviceInfo,
    /// Whether wgpu uses Direct3D's old compiler, which rejects some kernels.
    pub lacks_compiler: bool,
    /// To ask for its memory.
    #[cfg(windows)]
    pub adapter: wgpu::Adapter,
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub errors: ErrorSlot,
    pub recorder: Mutex<Recorder>,
    pub pipelines: Pipelines,
    pub uploads: Uploads,
    pub poller: Poller,
}

impl WgpuDevice {
    pub fn recorder(&self) -> MutexGuard<'_, Recorder> {
        // A panic while recording leaves commands that were recorded before it.
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn check_submission(&self) -> Result<(), DeviceError> {
        self.errors.check("a submission", 0)
    }

    /// Returns a compiled kernel.
    ///
    /// # Safety
    ///
    /// With [`Checks::Off`], as [`Device::unchecked_pipeline`](crate::Device::unchecked_pipeline).
    pub unsafe fn find_or_compile(
        &self,
        kernel: &'static Kernel,
        checks: Checks,
    ) -> Result<BackendObject, DeviceError> {
        if let Some(pipeline) = self.pipelines.find(kernel, checks) {
            return Ok(BackendObject::new(pipeline));
        }
        // Not under a lock: several threads compile at once.
        // SAFETY: the caller promises it.
        let pipeline = unsafe { self.pipelines.compile(kernel, checks) };
        self.errors
            .check(kernel.name, 0)
            .map_err(|error| self.with_remedy(error))?;
        let pipeline = self.pipelines.keep(kernel, checks, pipeline);
        Ok(BackendObject::new(pipeline))
    }

    /// Adds to an error of compiling a kernel what a user can do.
    fn with_remedy(&self, error: DeviceError) -> DeviceError {
        match error {
            DeviceError::Validation {
                what,
                device,
                message,
            } if self.lacks_compiler => DeviceError::Validation {
                what,
                device,
                message: format!("{message} {COMPILER_REMEDY}"),
            },
            other => other,
        }
    }
}

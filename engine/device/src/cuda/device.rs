//! A card, opened through CUDA's driver.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{CudaEvent, CudaStream};
use wisp_types::DeviceInfo;

use super::{
    compile::Compiler, errors::Errors, objects::CudaKernel, pinned::PinnedPool, staging::Staging,
    waiter::Waiter,
};
use crate::{compiled::Compiled, error::DeviceError};

/// A card, opened through CUDA's driver.
#[derive(Debug)]
pub(super) struct CudaDevice {
    pub info: DeviceInfo,
    pub errors: Errors,
    /// Everything that the device does, in order.
    pub stream: Arc<CudaStream>,
    /// Takes launches that are to become a graph, one thread's at a time.
    pub capture: Mutex<Arc<CudaStream>>,
    pub staging: Mutex<Staging>,
    pub readback: Arc<PinnedPool>,
    pub waiter: Waiter,
    pub compiler: Compiler,
    pub compiled: Compiled<Arc<CudaKernel>>,
}

impl CudaDevice {
    /// Makes the device current for the calls of this thread.
    pub fn bind_to_thread(&self, what: &str) -> Result<(), DeviceError> {
        let bound = self.stream.context().bind_to_thread();
        self.errors.check(what, bound)
    }

    pub fn staging(&self) -> MutexGuard<'_, Staging> {
        // A panic while staging leaves blocks whose copies were started or not: both are whole.
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an event that is reached when everything recorded so far is done.
    pub fn recorded_so_far(&self) -> Result<CudaEvent, DeviceError> {
        let event = self.stream.record_event(None);
        self.errors.check("a submission", event)
    }
}

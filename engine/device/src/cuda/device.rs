//! A card, opened through CUDA's driver.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{CudaEvent, CudaStream};
use wisp_types::DeviceInfo;

use super::{
    compile::Compiler,
    errors::Errors,
    graph::{Graph, Graphs},
    objects::CudaKernel,
    pinned::PinnedPool,
    staging::Staging,
    waiter::Waiter,
};
use crate::{compiled::Compiled, error::DeviceError};

/// What errors call work that was given to the device.
pub(super) const SUBMISSION: &str = "a submission";

/// A card, opened through CUDA's driver.
#[derive(Debug)]
pub(super) struct CudaDevice {
    pub info: DeviceInfo,
    pub errors: Errors,
    /// Everything that the device does, in order.
    pub stream: Arc<CudaStream>,
    /// Dropped before the kernels: a graph of several others keeps none.
    pub graphs: Mutex<Graphs>,
    pub staging: Mutex<Staging>,
    pub readback: Arc<PinnedPool>,
    pub waiter: Waiter,
    /// Whether the driver waits for each launch, so that its errors name the kernel. Graphs, which are launches of many,
    /// would hide it.
    pub launches_block: bool,
    pub compiler: Compiler,
    pub compiled: Compiled<Arc<CudaKernel>>,
}

impl CudaDevice {
    /// Begins something that comes after everything recorded so far: makes the device current for the calls of this
    /// thread, and launches what was only recorded.
    pub fn begin(&self, what: &str) -> Result<(), DeviceError> {
        let bound = self.stream.context().bind_to_thread();
        self.errors.check(what, bound)?;
        // Dropped after the lock is released: its memory may be freed, which waits for the device.
        let recorded: Vec<Arc<Graph>>;
        let mut graphs = self.graphs();
        recorded = graphs.take();
        graphs.launch(&recorded)
    }

    pub fn graphs(&self) -> MutexGuard<'_, Graphs> {
        // Poisoning is harmless: a capture that was not ended makes the next one fail, which is no error.
        self.graphs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn staging(&self) -> MutexGuard<'_, Staging> {
        // A panic while staging leaves blocks whose copies were started or not: both are whole.
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an event that is reached when everything launched so far is done.
    pub fn launched_so_far(&self) -> Result<CudaEvent, DeviceError> {
        let event = self.stream.record_event(None);
        self.errors.check(SUBMISSION, event)
    }
}

//! Faults for tests: a device whose commands fail when a test says so.

use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

#[cfg(not(target_arch = "wasm32"))]
use wisp_files::DiskCache;
use wisp_host::Twin;
use wisp_shaders::Kernel;
use wisp_types::{BoxFuture, DeviceInfo};

use crate::{
    backend::Backend,
    buffer::{Buffer, BufferSlice, ReadFuture, Usage},
    device::Device,
    error::DeviceError,
    object::BackendObject,
    pipeline::{BindGroup, Dispatch, Pipeline},
    timing::{Clock, Granularity, Spans},
};

/// A kind of command that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPoint {
    /// [`Device::allocate`].
    Allocation,
    /// [`Device::write`] and [`Device::copy`].
    Write,
    /// [`Device::pipeline`] and [`Device::bind`].
    Pipeline,
    /// [`Device::record`], [`Device::submit`], [`Device::submit_timed`] and [`Device::finish`].
    Submission,
    /// [`Device::read`].
    Readback,
}

impl FaultPoint {
    /// All kinds.
    pub const ALL: [FaultPoint; 5] = [
        FaultPoint::Allocation,
        FaultPoint::Write,
        FaultPoint::Pipeline,
        FaultPoint::Submission,
        FaultPoint::Readback,
    ];
}

/// How a command fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This command finds no memory; later ones succeed.
    OutOfMemory,
    /// The device is lost with this command, and every later one fails too.
    Lost,
}

/// Makes commands of a device fail. Clones control the same device.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Commands of each kind so far.
    counts: [u64; FaultPoint::ALL.len()],
    /// The command that fails, counted from 0, and how.
    planned: Option<(FaultPoint, u64, Fault)>,
    lost: bool,
}

impl Faults {
    /// Returns a device that runs everything on another one, and the faults of the returned device.
    pub fn wrap(device: &Device) -> (Device, Faults) {
        let faults = Faults::default();
        let backend = FaultyDevice {
            inner: device.backend().clone(),
            faults: faults.clone(),
        };
        (Device::new(Arc::new(backend)), faults)
    }

    /// Lets a command fail: the first of its kind from now on after `skipped` others. Replaces an
    /// earlier plan.
    pub fn plan(&self, point: FaultPoint, skipped: u64, fault: Fault) {
        let mut state = self.lock();
        let at = state.counts[point as usize] + skipped;
        state.planned = Some((point, at, fault));
    }

    /// Returns whether a planned fault is still to come.
    pub fn is_planned(&self) -> bool {
        self.lock().planned.is_some()
    }

    /// Returns the number of commands of a kind so far.
    pub fn count(&self, point: FaultPoint) -> u64 {
        self.lock().counts[point as usize]
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Poisoning is harmless: the state is changed by single assignments.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a command, and fails if it is the planned one or the device is lost.
    fn check(&self, point: FaultPoint, label: &str, bytes: u64) -> Result<(), DeviceError> {
        let mut state = self.lock();
        let at = state.counts[point as usize];
        state.counts[point as usize] += 1;
        let mut out_of_memory = false;
        if let Some((_, _, fault)) = state.planned.filter(|plan| (plan.0, plan.1) == (point, at)) {
            state.planned = None;
            state.lost |= fault == Fault::Lost;
            out_of_memory = fault == Fault::OutOfMemory;
        }
        let device = "faulty device".to_string();
        if state.lost {
            let message = "a test took it away".into();
            return Err(DeviceError::Lost { device, message });
        }
        match out_of_memory {
            false => Ok(()),
            true => Err(DeviceError::OutOfMemory {
                label: label.into(),
                bytes,
                device,
            }),
        }
    }
}

/// A device that fails as planned, and otherwise runs everything on another one.
#[derive(Debug)]
struct FaultyDevice {
    inner: Arc<dyn Backend>,
    faults: Faults,
}

impl Backend for FaultyDevice {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn allocate(
        &self,
        label: &str,
        bytes: u64,
        usage: Usage,
    ) -> Result<BackendObject, DeviceError> {
        self.faults.check(FaultPoint::Allocation, label, bytes)?;
        self.inner.allocate(label, bytes, usage)
    }

    fn write(&self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let bytes = data.len() as u64;
        self.faults
            .check(FaultPoint::Write, buffer.label(), bytes)?;
        self.inner.write(buffer, offset, data)
    }

    fn read(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture {
        let bytes = range.end - range.start;
        match self
            .faults
            .check(FaultPoint::Readback, buffer.label(), bytes)
        {
            Ok(()) => self.inner.read(buffer, range),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn copy(
        &self,
        from: &Buffer,
        range: Range<u64>,
        to: &Buffer,
        at: u64,
    ) -> Result<(), DeviceError> {
        let bytes = range.end - range.start;
        self.faults.check(FaultPoint::Write, to.label(), bytes)?;
        self.inner.copy(from, range, to, at)
    }

    fn pipeline(&self, kernel: &'static Kernel) -> Result<BackendObject, DeviceError> {
        self.faults.check(FaultPoint::Pipeline, kernel.name, 0)?;
        self.inner.pipeline(kernel)
    }

    unsafe fn unchecked_pipeline(
        &self,
        kernel: &'static Kernel,
    ) -> Result<BackendObject, DeviceError> {
        self.faults.check(FaultPoint::Pipeline, kernel.name, 0)?;
        // SAFETY: the caller promises it.
        unsafe { self.inner.unchecked_pipeline(kernel) }
    }

    fn twin_pipeline(&self, twin: Twin) -> Option<BackendObject> {
        self.inner.twin_pipeline(twin)
    }

    fn bind(
        &self,
        kernel: &'static Kernel,
        bindings: &[BufferSlice],
    ) -> Result<BackendObject, DeviceError> {
        self.faults.check(FaultPoint::Pipeline, kernel.name, 0)?;
        self.inner.bind(kernel, bindings)
    }

    fn check_dispatch(&self, pipeline: &Pipeline, group: &BindGroup) -> Result<(), DeviceError> {
        self.inner.check_dispatch(pipeline, group)
    }

    fn record(&self, dispatches: &[Dispatch]) -> Result<(), DeviceError> {
        self.faults
            .check(FaultPoint::Submission, "a submission", 0)?;
        self.inner.record(dispatches)
    }

    fn prepare(&self, dispatches: &[Dispatch]) -> Result<Option<BackendObject>, DeviceError> {
        self.inner.prepare(dispatches)
    }

    fn replay(&self, prepared: &BackendObject) -> Result<(), DeviceError> {
        self.faults
            .check(FaultPoint::Submission, "a submission", 0)?;
        self.inner.replay(prepared)
    }

    fn submit(&self) -> Result<(), DeviceError> {
        self.faults
            .check(FaultPoint::Submission, "a submission", 0)?;
        self.inner.submit()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    fn submit_timed(
        &self,
        dispatches: &[Dispatch],
        granularity: Granularity,
    ) -> Result<Spans, DeviceError> {
        self.faults
            .check(FaultPoint::Submission, "a submission", 0)?;
        self.inner.submit_timed(dispatches, granularity)
    }

    fn finish(&self) -> BoxFuture<'_, Result<(), DeviceError>> {
        match self.faults.check(FaultPoint::Submission, "a submission", 0) {
            Ok(()) => self.inner.finish(),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn free_memory(&self) -> Option<u64> {
        self.inner.free_memory()
    }

    fn driver_allocated(&self) -> Option<u64> {
        self.inner.driver_allocated()
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn use_cache(&self, cache: &DiskCache) {
        self.inner.use_cache(cache);
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn save_cache(&self) {
        self.inner.save_cache();
    }
}

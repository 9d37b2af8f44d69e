//! A device of any backend: opening it, its memory, its kernels and its commands.

mod commands;
mod kernels;
mod memory;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use wisp_types::{BoxFuture, DeviceInfo};

use crate::{
    DeviceError, DeviceSpec, FeatureLevel, backend::Backend, host::HostDevice, ledger::Ledger, open,
};

/// The bytes of a [read](Device::read), ready when the device has reached it.
pub type ReadFuture = BoxFuture<'static, Result<Vec<u8>, DeviceError>>;

/// Tells the devices of a process apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceId(u64);

impl DeviceId {
    fn next() -> DeviceId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        DeviceId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A GPU or the host CPU: memory, kernels, and commands in order. Cloning shares it.
///
/// All commands of a device take effect in the order in which they are called. The crate's page has an
/// example.
#[derive(Clone, Debug)]
pub struct Device {
    id: DeviceId,
    backend: Arc<dyn Backend>,
    ledger: Arc<Ledger>,
}

/// Two devices that were opened separately are different, even on one adapter.
impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        self.id == other.id
    }
}

impl Eq for Device {}

impl Device {
    pub(crate) fn new(backend: impl Backend + 'static) -> Device {
        Device {
            id: DeviceId::next(),
            backend: Arc::new(backend),
            ledger: Arc::default(),
        }
    }

    pub(crate) fn id(&self) -> DeviceId {
        self.id
    }

    /// Opens the host CPU with `num_threads` threads (0: one for each core).
    ///
    /// # Errors
    ///
    /// If the threads cannot be started.
    pub fn host(num_threads: usize) -> Result<Device, DeviceError> {
        let host = HostDevice::new(num_threads);
        host.threads()?;
        Ok(Device::new(host))
    }

    /// Opens the host CPU as [`Self::host`] does, but its threads start when it first runs something.
    pub fn idle_host(num_threads: usize) -> Device {
        Device::new(HostDevice::new(num_threads))
    }

    /// Opens the device that a specification names, limited to a feature level. `num_threads` is for the
    /// host, as in [`Self::host`].
    ///
    /// # Errors
    ///
    /// If there is no such device (the error lists those of this machine), or it cannot be opened.
    pub async fn open(
        spec: &DeviceSpec,
        level: FeatureLevel,
        num_threads: usize,
    ) -> Result<Device, DeviceError> {
        open::open(spec, level, num_threads).await
    }

    /// [`Self::open`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open_blocking(
        spec: &DeviceSpec,
        level: FeatureLevel,
        num_threads: usize,
    ) -> Result<Device, DeviceError> {
        pollster::block_on(Device::open(spec, level, num_threads))
    }

    /// What the device is and can do.
    pub fn info(&self) -> &DeviceInfo {
        self.backend.info()
    }
}

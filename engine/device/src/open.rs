//! Listing and opening devices: which backend has which.

use std::sync::Arc;

use wisp_types::{Api, DeviceInfo};

use crate::{
    automatic,
    device::Device,
    error::DeviceError,
    host::{self, HostDevice},
    options::DeviceOptions,
    spec::DeviceSpec,
};

/// Returns every device of this machine, the host last; each with the specification that opens it.
pub async fn list() -> Vec<(DeviceSpec, DeviceInfo)> {
    let mut devices = gpu::list().await;
    devices.extend(cuda::list());
    devices.push((DeviceSpec::HOST, host::info(0)));
    devices
}

/// [`list`], blocking the thread.
#[cfg(not(target_arch = "wasm32"))]
pub fn list_blocking() -> Vec<(DeviceSpec, DeviceInfo)> {
    pollster::block_on(list())
}

impl Device {
    /// Opens the host CPU with `num_threads` threads (0: one for each core).
    ///
    /// # Errors
    ///
    /// If the threads cannot be started.
    pub fn host(num_threads: usize) -> Result<Device, DeviceError> {
        let host = HostDevice::new(num_threads);
        host.start()?;
        Ok(Device::new(Arc::new(host)))
    }

    /// Opens the host CPU as [`Self::host`] does, but its threads start when it first runs something.
    pub fn idle_host(num_threads: usize) -> Device {
        Device::new(Arc::new(HostDevice::new(num_threads)))
    }

    /// Opens the device that a specification names.
    ///
    /// # Errors
    ///
    /// If there is no such device (the error lists those of this machine), or it cannot be opened.
    pub async fn open(spec: &DeviceSpec, options: DeviceOptions) -> Result<Device, DeviceError> {
        open(spec, options).await
    }

    /// [`Self::open`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open_blocking(spec: &DeviceSpec, options: DeviceOptions) -> Result<Device, DeviceError> {
        pollster::block_on(Device::open(spec, options))
    }
}

async fn open(spec: &DeviceSpec, options: DeviceOptions) -> Result<Device, DeviceError> {
    let adapter = match *spec {
        DeviceSpec::HOST => return Device::host(options.num_threads),
        DeviceSpec::Adapter { api: Api::Host, .. } => return Err(no_adapter(spec).await),
        DeviceSpec::Adapter {
            api: Api::Cuda,
            index,
        } => cuda::open(index, options)?,
        DeviceSpec::Adapter { api, index } => gpu::open(api, index, options).await?,
        DeviceSpec::Auto => return open_automatic(options).await,
    };
    match adapter {
        Some(backend) => Ok(Device::new(backend)),
        None => Err(no_adapter(spec).await),
    }
}

/// Opens the best real GPU, or else the host; a warning names the GPUs that were passed over.
async fn open_automatic(options: DeviceOptions) -> Result<Device, DeviceError> {
    let search = gpu::open_best(options).await?;
    if let Some(backend) = search.found {
        return Ok(Device::new(backend));
    }
    let mut skipped = search.skipped;
    skipped.extend(cuda::list());
    automatic::warn_of_host(&skipped);
    Device::host(options.num_threads)
}

async fn no_adapter(spec: &DeviceSpec) -> DeviceError {
    let found = list().await;
    let named = |(spec, info): &(DeviceSpec, DeviceInfo)| format!("{spec} = {}", info.name);
    DeviceError::NoAdapter {
        wanted: spec.to_string(),
        found: found.iter().map(named).collect(),
        remedy: match *spec {
            DeviceSpec::Adapter { api: Api::Host, .. } => "The host is one device: use `host`.",
            DeviceSpec::Adapter { api, .. } if has_adapter(&found, api) => {
                "Devices of an interface are numbered from 0: use one of the available ones."
            }
            DeviceSpec::Adapter { api: Api::Cuda, .. } => cuda::REMEDY,
            DeviceSpec::Adapter { api, .. } => gpu::remedy(api),
            // It is the host where there is no adapter.
            DeviceSpec::Auto => "Use the host device.",
        },
    }
}

/// Returns whether any of the devices belongs to an interface.
fn has_adapter(devices: &[(DeviceSpec, DeviceInfo)], wanted: Api) -> bool {
    let mut specs = devices.iter().map(|(spec, _)| *spec);
    specs.any(|spec| matches!(spec, DeviceSpec::Adapter { api, .. } if api == wanted))
}

#[cfg(all(feature = "cuda", not(target_arch = "wasm32")))]
use crate::cuda;
#[cfg(feature = "wgpu")]
use crate::wgpu as gpu;

/// The GPUs of a build without the feature `wgpu`: none.
#[cfg(not(feature = "wgpu"))]
mod gpu {
    use super::*;
    use crate::{automatic::Search, backend::Backend};

    pub fn remedy(_: Api) -> &'static str {
        "This build has only the host device: build Wisp with the feature `wgpu`."
    }

    pub async fn list() -> Vec<(DeviceSpec, DeviceInfo)> {
        Vec::new()
    }

    pub async fn open(
        _: Api,
        _: usize,
        _: DeviceOptions,
    ) -> Result<Option<Arc<dyn Backend>>, DeviceError> {
        Ok(None)
    }

    pub async fn open_best(_: DeviceOptions) -> Result<Search, DeviceError> {
        Ok(Search::default())
    }
}

/// The CUDA devices of a build without the feature `cuda`: none.
#[cfg(not(all(feature = "cuda", not(target_arch = "wasm32"))))]
mod cuda {
    use super::*;
    use crate::backend::Backend;

    pub const REMEDY: &str = "This build has no CUDA backend: build Wisp with the feature `cuda`, or use NVIDIA's GPUs through Vulkan.";

    pub fn list() -> Vec<(DeviceSpec, DeviceInfo)> {
        Vec::new()
    }

    pub fn open(_: usize, _: DeviceOptions) -> Result<Option<Arc<dyn Backend>>, DeviceError> {
        Ok(None)
    }
}

//! Listing and opening devices: which backend has which.

use wisp_types::{Api, DeviceInfo};

use crate::{Device, DeviceError, DeviceSpec, FeatureLevel, host};

/// Returns every device of this machine, the host last; each with the specification that opens it.
pub async fn list() -> Vec<(DeviceSpec, DeviceInfo)> {
    let mut devices = gpu::list().await;
    devices.push((DeviceSpec::HOST, host::info(0)));
    devices
}

/// [`list`], blocking the thread.
#[cfg(not(target_arch = "wasm32"))]
pub fn list_blocking() -> Vec<(DeviceSpec, DeviceInfo)> {
    pollster::block_on(list())
}

pub(crate) async fn open(
    spec: &DeviceSpec,
    level: FeatureLevel,
    num_threads: usize,
) -> Result<Device, DeviceError> {
    match spec {
        DeviceSpec::Adapter { api: Api::Host, .. } => Device::host(num_threads),
        DeviceSpec::Adapter { api, index } => match gpu::open(*api, *index, level).await? {
            Some(device) => Ok(device),
            None => Err(no_adapter(spec).await),
        },
        DeviceSpec::Auto => match gpu::open_best(level).await? {
            Some(device) => Ok(device),
            None => Device::host(num_threads),
        },
    }
}

async fn no_adapter(spec: &DeviceSpec) -> DeviceError {
    let found = list().await;
    let named = |(spec, info): &(DeviceSpec, DeviceInfo)| format!("{spec} = {}", info.name);
    DeviceError::NoAdapter {
        wanted: spec.to_string(),
        found: found.iter().map(named).collect(),
        remedy: gpu::REMEDY,
    }
}

#[cfg(feature = "wgpu")]
use crate::wgpu as gpu;

/// The GPUs of a build without the feature `wgpu`: none.
#[cfg(not(feature = "wgpu"))]
mod gpu {
    use super::*;

    pub const REMEDY: &str =
        "This build has only the host device: build Wisp with the feature `wgpu`.";

    pub async fn list() -> Vec<(DeviceSpec, DeviceInfo)> {
        Vec::new()
    }

    pub async fn open(_: Api, _: usize, _: FeatureLevel) -> Result<Option<Device>, DeviceError> {
        Ok(None)
    }

    pub async fn open_best(_: FeatureLevel) -> Result<Option<Device>, DeviceError> {
        Ok(None)
    }
}

//! Opening adapters.

use std::sync::{Arc, Mutex};

use wisp_types::{Api, BoxFuture};

use super::{
    adapters::{APIS, adapters, info, requested},
    device::WgpuDevice,
    errors::ErrorSlot,
    pipelines::Pipelines,
    poller::Poller,
    uploads::Uploads,
};
use crate::{
    automatic::{Search, SkipReason, lacks_compiler},
    backend::Backend,
    error::DeviceError,
    options::DeviceOptions,
    spec::DeviceSpec,
};

/// Returns what a user can do who has no adapter of an interface.
pub(crate) fn remedy(api: Api) -> &'static str {
    match api {
        Api::Metal if !cfg!(target_vendor = "apple") => {
            "Metal exists on Apple's systems only: use one of the available devices, or auto."
        }
        Api::Dx12 if !cfg!(windows) => {
            "DX12 exists on Windows only: use one of the available devices, or auto."
        }
        _ if cfg!(target_os = "linux") => {
            "Install your GPU's Vulkan driver (Debian: mesa-vulkan-drivers and libvulkan1), or use the host device."
        }
        _ if cfg!(windows) => {
            "Update your graphics driver, or use the host device. DX12 is chosen automatically only with dxcompiler.dll beside the program or on PATH."
        }
        _ => "Update your graphics driver, or use the host device.",
    }
}

/// Opens the best real GPU of this machine, if there is one.
///
/// The future is boxed here, as is [`open`]'s, so that callers' futures are `Send` without the compiler
/// looking through all of wgpu's types, which is beyond its default limit of recursion.
pub(crate) fn open_best(options: DeviceOptions) -> BoxFuture<'static, Result<Search, DeviceError>> {
    Box::pin(best(options))
}

async fn best(options: DeviceOptions) -> Result<Search, DeviceError> {
    let mut search = Search::default();
    for api in APIS {
        for (index, adapter) in adapters(api).await.into_iter().enumerate() {
            let info = info(&adapter, DeviceOptions::default());
            if SkipReason::of(&info).is_none() {
                search.found = Some(open_adapter(adapter, options).await?);
                return Ok(search);
            }
            let spec = DeviceSpec::Adapter { api, index };
            search.skipped.push((spec, info));
        }
    }
    Ok(search)
}

/// Opens one adapter of an interface; `None` if it has fewer.
pub(crate) fn open(
    api: Api,
    index: usize,
    options: DeviceOptions,
) -> BoxFuture<'static, Result<Option<Arc<dyn Backend>>, DeviceError>> {
    Box::pin(async move {
        match adapters(api).await.into_iter().nth(index) {
            Some(adapter) => open_adapter(adapter, options).await.map(Some),
            None => Ok(None),
        }
    })
}

async fn open_adapter(
    adapter: wgpu::Adapter,
    options: DeviceOptions,
) -> Result<Arc<dyn Backend>, DeviceError> {
    let lacks_compiler = lacks_compiler(&info(&adapter, DeviceOptions::default()));
    let info = info(&adapter, options);
    let (required_limits, required_features) = requested(&adapter, options);
    let (device, queue) = adapter
        .request_device(&wgpu::DeviceDescriptor {
            label: Some("wisp"),
            required_features,
            required_limits,
            // SAFETY: the only experimental feature that is requested is that of cooperative matrices, which only
            // built-in kernels use: within their workgroup memory, in uniform control flow.
            experimental_features: unsafe { wgpu::ExperimentalFeatures::enabled() },
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..Default::default()
        })
        .await
        .map_err(|error| DeviceError::Validation {
            what: "the device request".into(),
            device: info.name.clone(),
            message: error.to_string(),
        })?;
    #[cfg(target_arch = "wasm32")]
    let info = with_subgroups(info, &device, &adapter);
    let errors = ErrorSlot::watch(&device, &info.name);
    let poller = Poller::new(&device);
    let adapter_info = adapter.get_info();
    let pipelines = Pipelines::new(&device, &adapter_info, required_features);
    Ok(Arc::new(WgpuDevice {
        info,
        lacks_compiler,
        #[cfg(windows)]
        adapter,
        device,
        queue,
        errors,
        recorder: Mutex::default(),
        pipelines,
        uploads: Uploads::default(),
        poller,
    }))
}

/// Adds subgroups to what a browser's device can do. wgpu 30 neither requests nor reports them there, but
/// a caller may have requested them behind its back, as Wisp's package does; then the device has them.
#[cfg(target_arch = "wasm32")]
fn with_subgroups(
    mut info: wisp_types::DeviceInfo,
    device: &wgpu::Device,
    adapter: &wgpu::Adapter,
) -> wisp_types::DeviceInfo {
    let raw = device.as_webgpu();
    if raw.is_some_and(|raw| raw.features().has("subgroups")) {
        info.capabilities.subgroups = true;
        info.capabilities.min_subgroup_size = adapter.get_info().subgroup_min_size;
    }
    info
}

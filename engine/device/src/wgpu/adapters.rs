//! The adapters of this machine, and what they can do.

use wisp_types::{Api, BoxFuture, Capabilities, DeviceInfo};

use crate::{DeviceOptions, DeviceSpec, FeatureLevel};

/// The interfaces, the preferred first.
pub(super) const APIS: [Api; 5] = [Api::WebGpu, Api::Metal, Api::Vulkan, Api::Dx12, Api::Gl];

/// Returns the instance for some backends: one for the life of the process. With the last instance the
/// Vulkan loader would unload the driver, and Mesa's leaves a handler behind that `exit` then jumps to.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn instance(backends: wgpu::Backends) -> wgpu::Instance {
    use std::sync::{Mutex, PoisonError};

    static INSTANCES: Mutex<Vec<(wgpu::Backends, wgpu::Instance)>> = Mutex::new(Vec::new());
    // Poisoning is harmless: entries are inserted whole.
    let mut instances = INSTANCES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, instance)) = instances.iter().find(|(known, _)| *known == backends) {
        return instance.clone();
    }
    let instance = new_instance(backends);
    instances.push((backends, instance.clone()));
    instance
}

#[cfg(target_arch = "wasm32")]
fn instance(backends: wgpu::Backends) -> wgpu::Instance {
    new_instance(backends)
}

fn new_instance(backends: wgpu::Backends) -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends;
    wgpu::Instance::new(descriptor)
}

fn backends(api: Api) -> wgpu::Backends {
    match api {
        Api::Vulkan => wgpu::Backends::VULKAN,
        Api::Metal => wgpu::Backends::METAL,
        Api::Dx12 => wgpu::Backends::DX12,
        Api::Gl => wgpu::Backends::GL,
        Api::WebGpu => wgpu::Backends::BROWSER_WEBGPU,
        Api::Host | Api::Cuda => wgpu::Backends::empty(),
    }
}

fn api(backend: wgpu::Backend) -> Api {
    match backend {
        wgpu::Backend::Vulkan => Api::Vulkan,
        wgpu::Backend::Metal => Api::Metal,
        wgpu::Backend::Dx12 => Api::Dx12,
        wgpu::Backend::Gl => Api::Gl,
        wgpu::Backend::BrowserWebGpu => Api::WebGpu,
        wgpu::Backend::Noop => Api::Host,
    }
}

/// Returns the adapters of one interface that run compute shaders, real GPUs with their own memory first.
pub(super) async fn adapters(api: Api) -> Vec<wgpu::Adapter> {
    let instance = instance(backends(api));
    if cfg!(target_arch = "wasm32") {
        let found = instance.request_adapter(&wgpu::RequestAdapterOptions {
            power_preference: wgpu::PowerPreference::HighPerformance,
            ..Default::default()
        });
        return found.await.into_iter().collect();
    }
    let mut adapters = instance.enumerate_adapters(backends(api)).await;
    adapters.retain(|adapter| {
        let downlevel = adapter.get_downlevel_capabilities();
        downlevel
            .flags
            .contains(wgpu::DownlevelFlags::COMPUTE_SHADERS)
    });
    adapters.sort_by_key(|adapter| match adapter.get_info().device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    });
    adapters
}

/// Returns the adapters of all interfaces, the preferred interface first.
pub(crate) fn list() -> BoxFuture<'static, Vec<(DeviceSpec, DeviceInfo)>> {
    Box::pin(async {
        let mut devices = Vec::new();
        for api in APIS {
            let found = adapters(api).await;
            devices.extend(found.iter().enumerate().map(|(index, adapter)| {
                (
                    DeviceSpec::Adapter { api, index },
                    info(adapter, DeviceOptions::default()),
                )
            }));
        }
        devices
    })
}

/// Returns the limits and features that are requested of an adapter.
pub(super) fn requested(
    adapter: &wgpu::Adapter,
    options: DeviceOptions,
) -> (wgpu::Limits, wgpu::Features) {
    // A cache of pipelines changes nothing that programs see.
    let cache = wgpu::Features::PIPELINE_CACHE;
    match options.feature_level {
        FeatureLevel::Full => {
            let mut wanted = wgpu::Features::SUBGROUP
                | wgpu::Features::SHADER_F16
                | wgpu::Features::TIMESTAMP_QUERY
                | cache;
            wanted.set(
                wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX,
                options.cooperative_matrices,
            );
            (adapter.limits(), adapter.features() & wanted)
        }
        FeatureLevel::Baseline => (wgpu::Limits::defaults(), adapter.features() & cache),
    }
}

/// Describes an adapter as it is used with some options.
pub(super) fn info(adapter: &wgpu::Adapter, options: DeviceOptions) -> DeviceInfo {
    let info = adapter.get_info();
    let (limits, features) = requested(adapter, options);
    let software = info.device_type == wgpu::DeviceType::Cpu;
    let software_kernels = options.device_class.selects_software_kernels(software);
    let subgroups = features.contains(wgpu::Features::SUBGROUP);
    DeviceInfo {
        name: info.name,
        api: api(info.backend),
        software,
        integrated: info.device_type == wgpu::DeviceType::IntegratedGpu,
        driver: format!("{} {}", info.driver, info.driver_info)
            .trim()
            .to_string(),
        capabilities: Capabilities {
            max_binding_bytes: limits.max_storage_buffer_binding_size,
            max_buffer_bytes: limits.max_buffer_size,
            max_workgroup_invocations: limits.max_compute_invocations_per_workgroup,
            max_workgroup_bytes: limits.max_compute_workgroup_storage_size,
            max_storage_buffers: limits.max_storage_buffers_per_shader_stage,
            max_workgroups: limits.max_compute_workgroups_per_dimension,
            subgroups,
            min_subgroup_size: if subgroups { info.subgroup_min_size } else { 0 },
            f16: features.contains(wgpu::Features::SHADER_F16),
            matrix_size: match features.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX) {
                true => matrix_size(
                    &adapter.cooperative_matrix_properties(),
                    info.subgroup_max_size,
                ),
                false => 0,
            },
            // wgpu has no such instruction, and the WGSL in its place is slow.
            mma: false,
            software_kernels,
            is_host: false,
        },
    }
}

/// Returns the size of the cooperative matrices that kernels use, of `f16` with sums in f32: 16, or else 8; 0 if an
/// adapter has neither. It is also 0 where subgroups may have more than 64 invocations: a workgroup of attention may then have
/// too few of them.
fn matrix_size(properties: &[wgpu::CooperativeMatrixProperties], max_subgroup_size: u32) -> u32 {
    use wgpu::CooperativeScalarType::{F16, F32};

    let has = |size: u32| {
        properties.iter().any(|found| {
            [found.m_size, found.n_size, found.k_size] == [size; 3]
                && (found.ab_type, found.cr_type) == (F16, F32)
        })
    };
    let found = [16, 8].into_iter().find(|size| has(*size));
    found.filter(|_| max_subgroup_size <= 64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_matrices_of_the_sizes_of_kernels_count() {
        use wgpu::CooperativeScalarType::{F16, F32};

        let square = |size| wgpu::CooperativeMatrixProperties {
            m_size: size,
            n_size: size,
            k_size: size,
            ab_type: F16,
            cr_type: F32,
            saturating_accumulation: false,
        };
        let sums_of_halves = wgpu::CooperativeMatrixProperties {
            cr_type: F16,
            ..square(16)
        };
        assert_eq!(matrix_size(&[square(32), square(8), square(16)], 64), 16);
        assert_eq!(matrix_size(&[square(32), square(8), sums_of_halves], 32), 8);
        assert_eq!(matrix_size(&[square(32)], 32), 0);
        assert_eq!(matrix_size(&[square(16)], 128), 0);
    }
}

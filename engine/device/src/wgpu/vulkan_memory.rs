//! How much memory a Vulkan device has left, which WebGPU does not say.

use ash::{ext, vk};
use wgpu::hal::api::Vulkan;

/// Returns the bytes of the device's own memory that this process may still take, as the driver reports
/// them (`VK_EXT_memory_budget`); `None` if it reports none, or the device is not reached through Vulkan.
pub(super) fn free(device: &wgpu::Device) -> Option<u64> {
    // SAFETY: the device is only queried; nothing of it is changed or destroyed.
    let device = unsafe { device.as_hal::<Vulkan>() }?;
    let shared = device.shared_instance();
    let has_budget = device
        .enabled_device_extensions()
        .contains(&ext::memory_budget::NAME);
    if !has_budget || shared.instance_api_version() < vk::API_VERSION_1_1 {
        return None;
    }
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut properties = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
    // SAFETY: the physical device belongs to this instance, whose version has the function, and
    // the extension of the structure behind `properties` is enabled.
    unsafe {
        shared
            .raw_instance()
            .get_physical_device_memory_properties2(device.raw_physical_device(), &mut properties);
    }
    let properties = properties.memory_properties;
    let heaps = properties
        .memory_heaps
        .iter()
        .zip(0..properties.memory_heap_count);
    let own = heaps.filter(|(heap, _)| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    let (mut most, mut left) = (0, 0);
    for (_, i) in own {
        let (heap_most, used) = (
            budget.heap_budget[i as usize],
            budget.heap_usage[i as usize],
        );
        most = heap_most.saturating_add(most);
        left = heap_most.saturating_sub(used).saturating_add(left);
    }
    (most > 0).then_some(left)
}

#[cfg(test)]
mod tests {
    use wgpu::Backends;

    /// A software adapter reports the host's memory; the query is the same.
    #[test]
    fn drivers_report_a_plausible_size() {
        let instance = super::super::adapters::instance(Backends::VULKAN);
        let adapters = pollster::block_on(instance.enumerate_adapters(Backends::VULKAN));
        if adapters.is_empty() {
            eprintln!("skipped: no Vulkan adapter");
        }
        for adapter in adapters {
            let opened = pollster::block_on(adapter.request_device(&Default::default()));
            let Ok((device, _)) = opened else {
                continue;
            };
            let free = super::free(&device);
            assert!(free.is_none_or(|bytes| bytes < 1 << 50), "{free:?}");
            println!("{}: {free:?} bytes", adapter.get_info().name);
        }
    }
}

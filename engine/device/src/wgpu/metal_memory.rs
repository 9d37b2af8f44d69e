//! How much memory a Metal device has left, which WebGPU does not say.

use objc2_metal::MTLDevice as _;
use wgpu::hal::api::Metal;

/// Returns the bytes that the device can use at full speed besides those that this process has allocated;
/// `None` if the device is not reached through Metal.
pub(super) fn free(device: &wgpu::Device) -> Option<u64> {
    // SAFETY: the device is only queried; nothing of it is changed or destroyed.
    let device = unsafe { device.as_hal::<Metal>() }?;
    let device = device.raw_device();
    let allocated = device.currentAllocatedSize() as u64;
    let most = device.recommendedMaxWorkingSetSize();
    (most > 0).then(|| most.saturating_sub(allocated))
}

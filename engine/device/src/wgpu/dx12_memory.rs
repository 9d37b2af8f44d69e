//! How much memory a DX12 adapter has left, which WebGPU does not say.

use wgpu::hal::api::Dx12;

/// Returns the bytes of the adapter's own memory that this process may still take, by the budget that Windows
/// gives it; `None` if the adapter is not reached through DX12.
pub(super) fn free(adapter: &wgpu::Adapter) -> Option<u64> {
    // SAFETY: the adapter is only queried; nothing of it is changed or destroyed.
    let adapter = unsafe { adapter.as_hal::<Dx12>() }?;
    // By default that of the local segment, which is the adapter's own memory.
    let memory = adapter
        .raw_adapter()
        .query_video_memory_info(Default::default());
    let memory = memory.ok()?;
    (memory.Budget > 0).then(|| memory.Budget.saturating_sub(memory.CurrentUsage))
}

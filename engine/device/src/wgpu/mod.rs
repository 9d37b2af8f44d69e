//! GPUs through wgpu: Vulkan, Metal, DX12 and GL natively, WebGPU in a browser.

mod adapters;
mod backend;
mod device;
#[cfg(not(target_arch = "wasm32"))]
mod driver_cache;
#[cfg(windows)]
mod dx12_memory;
mod errors;
#[cfg(target_os = "macos")]
mod metal_memory;
mod objects;
mod open;
mod pipelines;
mod poller;
mod readback;
mod recorder;
mod timestamps;
mod uploads;
#[cfg(any(windows, target_os = "linux", target_os = "android"))]
mod vulkan_memory;

pub(crate) use adapters::list;
pub(crate) use open::{open, open_best, remedy};

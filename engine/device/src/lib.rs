//! Devices: memory, kernels and commands on GPUs through wgpu or CUDA and on the host CPU.
//!
//! This crate is Wisp's layer between kernels and hardware. It knows kernels ([`wisp_shaders`]) and their
//! host twins ([`wisp_host`]), but nothing of graphs, models or weights; nothing above it knows which
//! backend runs its kernels, so that a backend can be added here without changes elsewhere. Users meet
//! [`Device`], [`DeviceSpec`] and [`list`]; sessions do everything else for them.
//!
//! A [`Device`] allocates [`Buffer`]s, compiles kernels to [`Pipeline`]s, binds buffers to them as
//! [`BindGroup`]s, and runs [`Dispatch`]es of pipelines with bind groups. On GPUs the kernels are WGSL (the
//! feature `wgpu`), or CUDA C++ that is translated from it (the feature `cuda`); on the host, plain Rust
//! functions of the same names and bindings.
//!
//! ```
//! use wisp_device::{Device, Dispatch, Usage};
//! use wisp_shaders::params::BinaryContiguousParams;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::host(1)?;
//! let kernel = wisp_shaders::candidates("binary_contiguous").last().ok_or("no such kernel")?;
//! let a = device.allocate("a", 16, Usage::Storage)?;
//! let b = device.allocate("b", 16, Usage::Storage)?;
//! let sum = device.allocate("sum", 16, Usage::Storage)?;
//! device.write(&a, 0, bytemuck::cast_slice(&[1.0f32, 2.0, 3.0, 4.0]))?;
//! device.write(&b, 0, bytemuck::cast_slice(&[10.0f32, 20.0]))?;
//! // `b` is repeated over `a`.
//! let params = BinaryContiguousParams { len: 4, b_len: 2, ..Default::default() };
//! let uniform = device.allocate("params", 16, Usage::Uniform)?;
//! device.write(&uniform, 0, bytemuck::bytes_of(&params))?;
//!
//! let group = device.bind(kernel, &[&uniform, &a, &b, &sum].map(|buffer| buffer.whole()))?;
//! let add = Dispatch::new(&device, &device.pipeline(kernel)?, &group, [1, 1, 1])?;
//! device.record(&[add])?;
//! let bytes = device.read_blocking(&sum, 0..16)?;
//! assert_eq!(bytemuck::pod_collect_to_vec::<u8, f32>(&bytes), [11.0, 22.0, 13.0, 24.0]);
//! # Ok(())
//! # }
//! ```
//!
//! # Order
//!
//! Commands take effect in the order in which they are called, but a GPU gets them in batches:
//! [`Device::record`] keeps dispatches until something needs them ([`Device::submit`], a read, a write to
//! memory that they use, …). A [read](Device::read) returns a future; what is recorded before that is
//! awaited comes after it, so that the device computes while the program works on the last results.
//!
//! # Safety
//!
//! No safe call leads a kernel outside the memory that is bound to it. [`Device::pipeline`] compiles
//! kernels with the device's own checks; twins on the host check everything always. Kernels without
//! checks, which are faster on GPUs, are reached through the unsafe [`Device::unchecked_pipeline`] only:
//! sessions use it for programs that Wisp's own compiler made, whose sizes they check against the memory
//! that they allocate.

mod automatic;
mod backend;
mod buffer;
#[cfg(any(feature = "cuda", feature = "wgpu"))]
mod compiled;
#[cfg(all(feature = "cuda", not(target_arch = "wasm32")))]
mod cuda;
mod device;
mod device_id;
mod error;
#[cfg(feature = "faults")]
pub mod faults;
mod feature_level;
mod host;
mod host_clock;
mod ledger;
pub mod measure;
mod object;
mod open;
mod options;
mod pipeline;
mod sequence;
mod spec;
mod timing;
#[cfg(feature = "wgpu")]
mod wgpu;

#[cfg(all(feature = "cuda", not(target_arch = "wasm32")))]
pub use cuda::OfflineCompiler;

pub use automatic::SkipReason;
pub use buffer::{Buffer, BufferSlice, ReadFuture, Usage};
pub use device::Device;
pub use error::DeviceError;
pub use feature_level::FeatureLevel;
pub use open::list;
#[cfg(not(target_arch = "wasm32"))]
pub use open::list_blocking;
pub use options::{DeviceClassChoice, DeviceOptions};
pub use pipeline::{BindGroup, Dispatch, Pipeline};
pub use sequence::Sequence;
pub use spec::DeviceSpec;
pub use timing::{Clock, Granularity, Spans};
pub use wisp_host::HostError;
pub use wisp_types::{Api, BoxFuture, Capabilities, DeviceInfo};

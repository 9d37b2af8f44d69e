//! Devices: memory, kernels and submissions, one file a backend.
//!
//! A [`Device`] allocates buffers, compiles kernels, binds the one to the other and submits lists
//! of dispatches. `wgpu` runs the WGSL kernels; `host` runs, under the same kernel names and
//! bindings, plain Rust twins. Nothing above this module knows which it is.
//!
//! Which device it is to be is a [`DeviceSpec`] (`auto`, `host`, `vulkan:1`, …), how much of it to use a
//! [`FeatureLevel`]; [`list`] tells what there is. A session does the rest. By hand, a kernel runs like this:
//!
//! ```
//! use wisp_engine::device::{Device, Dispatch, Usage};
//! use wisp_shaders::params::ElementwiseParams;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::host(1)?;
//! let kernel = wisp_shaders::candidates("elementwise").last().ok_or("there is one")?;
//! let [a, b, out] = ["a", "b", "out"].map(|name| device.allocate(name, 16, Usage::Storage));
//! let (a, b, out) = (a?, b?, out?);
//! device.write(&a, 0, bytemuck::cast_slice(&[1.0f32, 2.0, 3.0, 4.0]))?;
//! device.write(&b, 0, bytemuck::cast_slice(&[10.0f32, 20.0]))?;
//! // `b` is repeated over `a`.
//! let params = ElementwiseParams { len: 4, b_len: 2, ..Default::default() };
//! let uniform = device.allocate("params", 16, Usage::Uniform)?;
//! device.write(&uniform, 0, bytemuck::bytes_of(&params))?;
//!
//! let group = device.bind(kernel, &[&uniform, &a, &b, &out].map(|buffer| buffer.whole()))?;
//! let pipeline = device.pipeline(kernel)?;
//! device.record(&[Dispatch { pipeline, group, workgroups: [1, 1, 1] }])?;
//! let bytes = pollster::block_on(device.read(&out, 0..16))?;
//! assert_eq!(bytemuck::pod_collect_to_vec::<u8, f32>(&bytes), [11.0, 22.0, 13.0, 24.0]);
//! # Ok(())
//! # }
//! ```

mod host;
mod host_memory;
pub mod measure;
mod spec;
mod timing;
#[cfg(all(
    feature = "wgpu",
    any(windows, target_os = "linux", target_os = "android")
))]
mod vulkan_memory;
#[cfg(feature = "wgpu")]
mod wgpu;

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use wisp_host::{HostBuffer, Twin};
use wisp_shaders::Kernel;

#[cfg(not(target_arch = "wasm32"))]
use wisp_files::DiskCache;

pub use host::HostDevice;
pub use spec::{DeviceSpec, FeatureLevel, list};
pub use timing::{Clock, Granularity, Spans};
pub use wisp_host::HostError;
pub use wisp_types::{Api, BoxFuture, Capabilities, DeviceInfo};

/// What can go wrong on a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// Occurs when no adapter answers to a device specification.
    #[error("no {wanted} device found{}. {hint}", if .found.is_empty() { String::new() } else { format!(" (there are: {})", .found.join(", ")) })]
    NoAdapter {
        /// What was asked for.
        wanted: String,
        /// The adapters that there are.
        found: Vec<String>,
        /// What the user can do.
        hint: &'static str,
    },
    /// Occurs when a device specification cannot be read.
    #[error(
        "unknown device {0:?}: use auto, host, vulkan, metal, dx12 or gl, with :INDEX to choose one of several"
    )]
    UnknownDevice(String),
    /// Occurs when a buffer is larger than the device allows.
    #[error("{label} needs {bytes} bytes in one piece, but {device} allows {limit}")]
    TooLarge {
        /// The buffer.
        label: String,
        /// Its size.
        bytes: u64,
        /// The device.
        device: String,
        /// The device's limit.
        limit: u64,
    },
    /// Occurs when the device's memory is exhausted.
    #[error(
        "{device} is out of memory allocating {bytes} bytes for {label}: use a smaller model, context or batch"
    )]
    OutOfMemory {
        /// The buffer.
        label: String,
        /// Its size.
        bytes: u64,
        /// The device.
        device: String,
    },
    /// Occurs when the device refuses what it was given, which is a defect of Wisp or of the driver.
    #[error("{device} refused {what}: {message}")]
    Validation {
        /// The kernel or buffer.
        what: String,
        /// The device.
        device: String,
        /// The device's words.
        message: String,
    },
    /// Occurs when the device is gone (reset, unplugged, driver updated).
    #[error("{device} was lost: {message}")]
    Lost {
        /// The device.
        device: String,
        /// The driver's words.
        message: String,
    },
    /// Occurs when a buffer is written or read outside its bounds.
    #[error("{label}: bytes {start}..{end} lie outside its {bytes}")]
    OutOfBounds {
        /// The buffer.
        label: String,
        /// First byte.
        start: u64,
        /// Past the last byte.
        end: u64,
        /// The buffer's size.
        bytes: u64,
    },
    /// Occurs when a buffer, kernel or bind group of one device is used on another.
    #[error("{0} belongs to another device")]
    ForeignObject(String),
    /// Occurs when a kernel's twin on the host fails.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Read and written by kernels.
    Storage,
    /// Kernel parameters.
    Uniform,
}

/// Memory of a device. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Buffer {
    label: Arc<str>,
    bytes: u64,
    raw: RawBuffer,
    entry: Arc<Entry>,
}

#[derive(Clone, Debug)]
enum RawBuffer {
    Host(HostBuffer),
    #[cfg(feature = "wgpu")]
    Wgpu(::wgpu::Buffer),
}

impl Buffer {
    /// What the buffer holds, for error messages.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Size in bytes, a multiple of 16.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The whole buffer, to bind.
    pub fn whole(&self) -> BufferSlice {
        BufferSlice {
            buffer: self.clone(),
            range: 0..self.bytes,
        }
    }

    /// A part of the buffer, to bind; `range` counts bytes and starts at a multiple of 256.
    pub fn slice(&self, range: Range<u64>) -> BufferSlice {
        BufferSlice {
            buffer: self.clone(),
            range,
        }
    }

    /// True if both are the same memory.
    pub fn is(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.entry, &other.entry)
    }

    fn check(&self, start: u64, bytes: u64) -> Result<(), DeviceError> {
        match start.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(()),
            end => Err(DeviceError::OutOfBounds {
                label: self.label.to_string(),
                start,
                end: end.unwrap_or(u64::MAX),
                bytes: self.bytes,
            }),
        }
    }
}

/// A range of a buffer that a kernel sees.
#[derive(Clone, Debug)]
pub struct BufferSlice {
    /// The buffer.
    pub buffer: Buffer,
    /// The bytes of it.
    pub range: Range<u64>,
}

/// A kernel, compiled for a device. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Pipeline {
    kernel: &'static Kernel,
    raw: RawPipeline,
}

impl Pipeline {
    /// The kernel.
    pub fn kernel(&self) -> &'static Kernel {
        self.kernel
    }
}

#[derive(Clone, Debug)]
enum RawPipeline {
    Host(Twin),
    #[cfg(feature = "wgpu")]
    Wgpu(::wgpu::ComputePipeline),
}

/// The memory that one dispatch sees, by binding number. Cloning shares it.
#[derive(Clone, Debug)]
pub struct BindGroup {
    bindings: Arc<[BufferSlice]>,
    raw: RawBindGroup,
}

#[derive(Clone, Debug)]
enum RawBindGroup {
    Host,
    #[cfg(feature = "wgpu")]
    Wgpu(::wgpu::BindGroup),
}

/// One execution of a kernel.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// The kernel.
    pub pipeline: Pipeline,
    /// The memory that is bound to it.
    pub group: BindGroup,
    /// Workgroups in x, y and z.
    pub workgroups: [u32; 3],
}

/// What a backend does; reached through [`Device`].
trait Backend: Send + Sync + std::fmt::Debug {
    fn info(&self) -> &DeviceInfo;
    fn allocate(&self, label: &str, bytes: u64, usage: Usage) -> Result<RawBuffer, DeviceError>;
    fn write(&self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError>;
    /// Starts to read what the buffer holds after everything recorded so far.
    fn read(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture;
    /// Copies between two buffers of this device.
    fn copy(
        &self,
        from: &Buffer,
        range: Range<u64>,
        to: &Buffer,
        at: u64,
    ) -> Result<(), DeviceError>;
    fn pipeline(&self, kernel: &'static Kernel, checks: Checks)
    -> Result<RawPipeline, DeviceError>;
    fn bind(
        &self,
        kernel: &'static Kernel,
        bindings: &[BufferSlice],
    ) -> Result<RawBindGroup, DeviceError>;
    /// Records dispatches, or runs them at once.
    fn record(&self, dispatches: &[Dispatch]) -> Result<(), DeviceError>;
    /// Starts everything recorded so far.
    fn submit(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    /// What `submit_timed` measures with.
    fn clock(&self) -> Clock {
        timing::without_timestamps()
    }
    fn submit_timed(
        &self,
        dispatches: &[Dispatch],
        granularity: Granularity,
    ) -> Result<Spans, DeviceError> {
        timing::by_host(self, dispatches, granularity)
    }
    fn finish(&self) -> BoxFuture<'_, Result<(), DeviceError>>;
    fn free_memory(&self) -> Option<u64>;
    /// Bytes that the driver's allocator has given out, where it tells.
    fn driver_allocated(&self) -> Option<u64> {
        None
    }
    /// Takes pipelines from a cache, and keeps them for it.
    #[cfg(not(target_arch = "wasm32"))]
    fn use_cache(&self, _cache: &DiskCache) {}
    /// Writes new pipelines to the cache.
    #[cfg(not(target_arch = "wasm32"))]
    fn save_cache(&self) {}
}

/// Whether a kernel's memory accesses are checked where they happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Checks {
    /// The kernel keeps to its memory whatever it is given: it is checked when it runs.
    All,
    /// Whoever runs it answers for its parameters.
    None,
}

/// The bytes that a read returns, when the device has reached it.
pub type ReadFuture = BoxFuture<'static, Result<Vec<u8>, DeviceError>>;

/// Bytes allocated on a device, now and at most so far.
#[derive(Debug, Default)]
struct Ledger {
    now: AtomicU64,
    peak: AtomicU64,
}

/// An entry of the ledger, struck out when the last clone of its buffer goes.
#[derive(Debug)]
struct Entry {
    ledger: Arc<Ledger>,
    bytes: u64,
    /// The last batch of recorded commands that uses the buffer; backends count batches from 1.
    last_batch: AtomicU64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.ledger.now.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A device of some backend. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Device {
    backend: Arc<dyn Backend>,
    ledger: Arc<Ledger>,
}

/// Two that were opened by themselves are two devices, even on one adapter.
impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.ledger, &other.ledger)
    }
}

impl Eq for Device {}

impl Device {
    fn new(backend: impl Backend + 'static) -> Device {
        Device {
            backend: Arc::new(backend),
            ledger: Arc::default(),
        }
    }

    /// The host CPU, with `num_threads` threads (0: one a core).
    ///
    /// # Errors
    ///
    /// If the threads cannot be started.
    pub fn host(num_threads: usize) -> Result<Device, DeviceError> {
        let host = HostDevice::new(num_threads);
        host.threads()?;
        Ok(Device::new(host))
    }

    /// [`Self::host`], but its threads start when it first runs something.
    pub fn idle_host(num_threads: usize) -> Device {
        Device::new(HostDevice::new(num_threads))
    }

    /// The device that a specification names, limited to a profile.
    ///
    /// # Errors
    ///
    /// If there is none such, with what there is instead.
    pub async fn open(
        spec: &DeviceSpec,
        profile: FeatureLevel,
        num_threads: usize,
    ) -> Result<Device, DeviceError> {
        spec::open(spec, profile, num_threads).await
    }

    /// [`Self::open`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open_blocking(
        spec: &DeviceSpec,
        profile: FeatureLevel,
        num_threads: usize,
    ) -> Result<Device, DeviceError> {
        pollster::block_on(Device::open(spec, profile, num_threads))
    }

    /// What the device is and can do.
    pub fn info(&self) -> &DeviceInfo {
        self.backend.info()
    }

    /// Allocates `bytes` (rounded up to 16), all zero.
    ///
    /// # Errors
    ///
    /// If the device's limit or its memory is exceeded.
    pub fn allocate(&self, label: &str, bytes: u64, usage: Usage) -> Result<Buffer, DeviceError> {
        let limit = self.info().capabilities.max_buffer_bytes;
        let rounded = bytes
            .max(1)
            .checked_next_multiple_of(16)
            .unwrap_or(u64::MAX);
        if rounded > limit {
            return Err(DeviceError::TooLarge {
                label: label.into(),
                bytes,
                device: self.info().name.clone(),
                limit,
            });
        }
        let raw = self.backend.allocate(label, rounded, usage)?;
        let now = self.ledger.now.fetch_add(rounded, Ordering::Relaxed) + rounded;
        self.ledger.peak.fetch_max(now, Ordering::Relaxed);
        let entry = Arc::new(Entry {
            ledger: self.ledger.clone(),
            bytes: rounded,
            last_batch: AtomicU64::new(0),
        });
        Ok(Buffer {
            label: label.into(),
            bytes: rounded,
            raw,
            entry,
        })
    }

    /// Writes `data` at `offset` (both multiples of 4 bytes): after everything recorded before, and
    /// before everything recorded later.
    ///
    /// # Errors
    ///
    /// If the range is outside the buffer or the device was lost.
    pub fn write(&self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        buffer.check(offset, data.len() as u64)?;
        self.backend.write(buffer, offset, data)
    }

    /// Reads `range` (multiples of 4 bytes) as it is after everything recorded before this call. The
    /// read starts now, and starts the recorded work too: what is recorded before the returned future
    /// is awaited comes after it.
    ///
    /// # Errors
    ///
    /// If the range is outside the buffer or the device was lost.
    pub fn read(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture {
        match buffer.check(range.start, range.end.saturating_sub(range.start)) {
            Ok(()) => self.backend.read(buffer, range),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    /// Checks that a buffer is this device's and has the bytes of `range`.
    ///
    /// # Errors
    ///
    /// If it is another device's or smaller.
    pub fn check_range(&self, buffer: &Buffer, range: Range<u64>) -> Result<(), DeviceError> {
        if !Arc::ptr_eq(&self.ledger, &buffer.entry.ledger) {
            return Err(DeviceError::ForeignObject(buffer.label.to_string()));
        }
        buffer.check(range.start, range.end.saturating_sub(range.start))
    }

    /// Copies `range` of a buffer to another one, from `at` on (all multiples of 4 bytes), after
    /// everything recorded before.
    ///
    /// # Errors
    ///
    /// If a range is outside its buffer, a buffer is another device's or the device was lost.
    pub fn copy(
        &self,
        from: &Buffer,
        range: Range<u64>,
        to: &Buffer,
        at: u64,
    ) -> Result<(), DeviceError> {
        let bytes = range.end.saturating_sub(range.start);
        from.check(range.start, bytes)?;
        to.check(at, bytes)?;
        match bytes {
            0 => Ok(()),
            _ => self.backend.copy(from, range, to, at),
        }
    }

    /// Copies the first `bytes` (a multiple of 4) of a buffer to the start of another device's: through
    /// the host, or directly if both are of one device.
    ///
    /// # Errors
    ///
    /// If a buffer is too small, is not of its device, or a device was lost.
    pub async fn transfer(
        &self,
        from: &Buffer,
        bytes: u64,
        to: (&Device, &Buffer),
    ) -> Result<(), DeviceError> {
        let (device, buffer) = to;
        if bytes == 0 {
            return Ok(());
        }
        if self == device {
            return self.copy(from, 0..bytes, buffer, 0);
        }
        let data = self.read(from, 0..bytes).await?;
        device.write(buffer, 0, &data)
    }

    /// Compiles a kernel, or returns it from the device's cache. A kernel that is not built in is
    /// [checked](Self::checked_pipeline) when it runs.
    ///
    /// # Errors
    ///
    /// If the device's compiler refuses it.
    pub fn pipeline(&self, kernel: &'static Kernel) -> Result<Pipeline, DeviceError> {
        let built_in = wisp_shaders::kernels().as_ptr_range();
        let checks = match built_in.contains(&std::ptr::from_ref(kernel)) {
            true => Checks::None,
            false => Checks::All,
        };
        Ok(Pipeline {
            kernel,
            raw: self.backend.pipeline(kernel, checks)?,
        })
    }

    /// As [`Self::pipeline`], but whatever its parameters and bindings are, the kernel touches no
    /// memory that is not bound to it and comes to an end.
    ///
    /// # Errors
    ///
    /// If the device's compiler refuses it.
    pub fn checked_pipeline(&self, kernel: &'static Kernel) -> Result<Pipeline, DeviceError> {
        Ok(Pipeline {
            kernel,
            raw: self.backend.pipeline(kernel, Checks::All)?,
        })
    }

    /// On the host: what a twin of the caller's does, under a kernel's name. `None` elsewhere.
    pub fn twin_pipeline(&self, kernel: &'static Kernel, twin: Twin) -> Option<Pipeline> {
        let raw = RawPipeline::Host(twin);
        (self.info().api == Api::Host).then_some(Pipeline { kernel, raw })
    }

    /// Takes pipelines from a cache where the driver has such a thing; [`Self::save_cache`] keeps them.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn use_cache(&self, cache: &DiskCache) {
        self.backend.use_cache(cache);
    }

    /// Writes the pipelines made since to the cache in use, if there is one.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn save_cache(&self) {
        self.backend.save_cache();
    }

    /// Binds memory to a kernel (and to every other one with the same kinds of bindings).
    ///
    /// # Errors
    ///
    /// If there are not as many slices as the kernel has bindings, or one is outside its buffer or larger
    /// than one binding may be.
    pub fn bind(
        &self,
        kernel: &'static Kernel,
        bindings: &[BufferSlice],
    ) -> Result<BindGroup, DeviceError> {
        let (expected, given) = (kernel.bindings.len(), bindings.len());
        if given != expected {
            return Err(DeviceError::Validation {
                what: kernel.name.into(),
                device: self.info().name.clone(),
                message: format!("it has {expected} bindings, {given} are given"),
            });
        }
        for slice in bindings {
            let bytes = slice.range.end.saturating_sub(slice.range.start);
            slice.buffer.check(slice.range.start, bytes)?;
            let limit = self.info().capabilities.max_binding_bytes;
            if bytes > limit {
                return Err(DeviceError::TooLarge {
                    label: format!("{} (bound to {})", slice.buffer.label, kernel.name),
                    bytes,
                    device: self.info().name.clone(),
                    limit,
                });
            }
        }
        Ok(BindGroup {
            raw: self.backend.bind(kernel, bindings)?,
            bindings: bindings.into(),
        })
    }

    /// Records dispatches, to run in order, each seeing what those before it wrote.
    ///
    /// The host runs them at once. A GPU gets them together with everything else that was recorded, in
    /// one submission, as soon as something needs them: [`Self::submit`], [`Self::read`],
    /// [`Self::finish`] or [`Self::submit_timed`], a write to memory that they use, or a few thousand
    /// dispatches more. Several models, and several steps of one, thus become one submission when they
    /// run one after the other.
    ///
    /// # Errors
    ///
    /// If a dispatch belongs to another device (those before it are recorded), if the device was lost
    /// or, on the host, a kernel fails. What else a GPU finds wrong is an error of the call that
    /// submits.
    pub fn record(&self, dispatches: &[Dispatch]) -> Result<(), DeviceError> {
        self.backend.record(dispatches)
    }

    /// Starts everything recorded so far, without waiting for it.
    ///
    /// # Errors
    ///
    /// If the device was lost or refuses what was recorded.
    pub fn submit(&self) -> Result<(), DeviceError> {
        self.backend.submit()
    }

    /// What [`Self::submit_timed`] measures with.
    pub fn clock(&self) -> Clock {
        self.backend.clock()
    }

    /// Runs dispatches in a submission of their own, after everything recorded before, and measures
    /// how long they take, together or one by one. Without timestamps ([`Self::clock`]) it waits until
    /// they are done.
    ///
    /// # Errors
    ///
    /// As [`Self::record`] and [`Self::submit`].
    pub fn submit_timed(
        &self,
        dispatches: &[Dispatch],
        granularity: Granularity,
    ) -> Result<Spans, DeviceError> {
        self.backend.submit_timed(dispatches, granularity)
    }

    /// Submits what was recorded and waits until everything submitted is done.
    ///
    /// # Errors
    ///
    /// If the device was lost or reported an error meanwhile.
    pub async fn finish(&self) -> Result<(), DeviceError> {
        self.backend.finish().await
    }

    /// Bytes of memory that nobody uses now, where the device tells.
    pub fn free_memory(&self) -> Option<u64> {
        self.backend.free_memory()
    }

    /// Bytes that the driver has given out to this device, where it tells: with what wgpu takes for
    /// itself, and until all that used them has run.
    pub fn driver_allocated(&self) -> Option<u64> {
        self.backend.driver_allocated()
    }

    /// Bytes allocated now, and at most so far.
    pub fn allocated(&self) -> (u64, u64) {
        (
            self.ledger.now.load(Ordering::Relaxed),
            self.ledger.peak.load(Ordering::Relaxed),
        )
    }
}

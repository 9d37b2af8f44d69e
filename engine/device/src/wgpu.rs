//! GPUs through wgpu: Vulkan, Metal, DX12 and GL natively, WebGPU in a browser.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

#[cfg(not(target_arch = "wasm32"))]
mod kept;
mod recorder;
mod timestamps;

use futures_channel::oneshot;
use wisp_shaders::{Access, Kernel};

use super::{
    Api, Backend, BoxFuture, Buffer, BufferSlice, Capabilities, Checks, Clock, Device, DeviceError,
    DeviceInfo, DeviceSpec, Dispatch, FeatureLevel, Granularity, RawBindGroup, RawBuffer,
    RawPipeline, ReadFuture, Spans, Usage,
};
use recorder::{Recorder, encode};

/// Bytes in flight to the device after which an upload waits, so that staging memory stays small.
const UPLOAD_WINDOW: u64 = 8 << 20;

/// A device behind wgpu.
#[derive(Debug)]
struct WgpuDevice {
    info: DeviceInfo,
    device: wgpu::Device,
    queue: wgpu::Queue,
    error: ErrorSlot,
    recorder: Mutex<Recorder>,
    pipelines: Mutex<HashMap<(&'static str, Checks), wgpu::ComputePipeline>>,
    #[cfg(not(target_arch = "wasm32"))]
    kept: kept::KeptPipelines,
    layouts: Mutex<HashMap<&'static [Access], wgpu::BindGroupLayout>>,
    uploading: AtomicU64,
    poller: Poller,
}

/// One instance per set of backends, for the life of the process: with the last instance the Vulkan
/// loader would unload the driver, and Mesa's leaves a handler behind that `exit` then jumps to.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn instance(backends: wgpu::Backends) -> wgpu::Instance {
    static KEPT: std::sync::Mutex<Vec<(wgpu::Backends, wgpu::Instance)>> =
        std::sync::Mutex::new(Vec::new());
    // Whoever panicked with the lock left whole entries.
    let mut kept = KEPT
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some((_, instance)) = kept.iter().find(|(known, _)| *known == backends) {
        return instance.clone();
    }
    let instance = new_instance(backends);
    kept.push((backends, instance.clone()));
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
        Api::Host => wgpu::Backends::empty(),
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

/// The interfaces in the order of preference.
const APIS: [Api; 5] = [Api::WebGpu, Api::Metal, Api::Vulkan, Api::Dx12, Api::Gl];

/// The adapters of one interface, real GPUs with their own memory first.
async fn adapters(api: Api) -> Vec<wgpu::Adapter> {
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
        adapter
            .get_downlevel_capabilities()
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

fn capabilities(
    limits: &wgpu::Limits,
    features: wgpu::Features,
    software: bool,
    subgroup_size: u32,
) -> Capabilities {
    Capabilities {
        max_binding_bytes: limits.max_storage_buffer_binding_size,
        max_buffer_bytes: limits.max_buffer_size,
        max_workgroup_invocations: limits.max_compute_invocations_per_workgroup,
        max_workgroup_bytes: limits.max_compute_workgroup_storage_size,
        max_storage_buffers: limits.max_storage_buffers_per_shader_stage,
        max_workgroups: limits.max_compute_workgroups_per_dimension,
        subgroups: features.contains(wgpu::Features::SUBGROUP),
        min_subgroup_size: if features.contains(wgpu::Features::SUBGROUP) {
            subgroup_size
        } else {
            0
        },
        f16: features.contains(wgpu::Features::SHADER_F16),
        software,
    }
}

fn request(adapter: &wgpu::Adapter, profile: FeatureLevel) -> (wgpu::Limits, wgpu::Features) {
    match profile {
        FeatureLevel::Full => {
            // A cache of pipelines changes nothing that programs see.
            let wanted = wgpu::Features::SUBGROUP
                | wgpu::Features::SHADER_F16
                | wgpu::Features::TIMESTAMP_QUERY
                | wgpu::Features::PIPELINE_CACHE;
            (adapter.limits(), adapter.features() & wanted)
        }
        FeatureLevel::Baseline => (
            wgpu::Limits::defaults(),
            adapter.features() & wgpu::Features::PIPELINE_CACHE,
        ),
    }
}

fn info(adapter: &wgpu::Adapter, profile: FeatureLevel) -> DeviceInfo {
    let info = adapter.get_info();
    let (limits, features) = request(adapter, profile);
    let software = info.device_type == wgpu::DeviceType::Cpu;
    DeviceInfo {
        name: info.name,
        api: api(info.backend),
        software,
        integrated: info.device_type == wgpu::DeviceType::IntegratedGpu,
        driver: format!("{} {}", info.driver, info.driver_info)
            .trim()
            .to_string(),
        capabilities: capabilities(&limits, features, software, info.subgroup_min_size),
    }
}

pub(super) async fn list() -> Vec<(DeviceSpec, DeviceInfo)> {
    let mut devices = Vec::new();
    for api in APIS {
        let found = adapters(api).await;
        devices.extend(found.iter().enumerate().map(|(index, adapter)| {
            (
                DeviceSpec::Adapter { api, index },
                info(adapter, FeatureLevel::Full),
            )
        }));
    }
    devices
}

/// The best real GPU of this machine.
pub(super) async fn open_gpu(profile: FeatureLevel) -> Result<Device, DeviceError> {
    for api in APIS {
        for adapter in adapters(api).await {
            if adapter.get_info().device_type != wgpu::DeviceType::Cpu {
                return open_adapter(adapter, profile).await;
            }
        }
    }
    Err(no_adapter("GPU".into()).await)
}

pub(super) async fn open(
    api: Api,
    index: usize,
    profile: FeatureLevel,
) -> Result<Device, DeviceError> {
    match adapters(api).await.into_iter().nth(index) {
        Some(adapter) => open_adapter(adapter, profile).await,
        None => Err(no_adapter(DeviceSpec::Adapter { api, index }.to_string()).await),
    }
}

async fn no_adapter(wanted: String) -> DeviceError {
    DeviceError::NoAdapter {
        wanted,
        found: super::list()
            .await
            .iter()
            .map(|(spec, info)| format!("{spec} = {}", info.name))
            .collect(),
        hint: if cfg!(target_os = "linux") {
            "Install your GPU's Vulkan driver (Debian: mesa-vulkan-drivers and libvulkan1), or use --device host."
        } else {
            "Update your graphics driver, or use --device host."
        },
    }
}

async fn open_adapter(
    adapter: wgpu::Adapter,
    profile: FeatureLevel,
) -> Result<Device, DeviceError> {
    let info = info(&adapter, profile);
    let (required_limits, required_features) = request(&adapter, profile);
    let (device, queue) = adapter
        .request_device(&wgpu::DeviceDescriptor {
            label: Some("wisp"),
            required_features,
            required_limits,
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
    let error = ErrorSlot::default();
    watch(&device, &info.name, &error);
    let poller = Poller::new(&device);
    #[cfg(not(target_arch = "wasm32"))]
    let kept = kept::KeptPipelines::new(&adapter.get_info(), required_features);
    Ok(Device::new(WgpuDevice {
        info,
        device,
        queue,
        error,
        recorder: Mutex::default(),
        pipelines: Mutex::default(),
        #[cfg(not(target_arch = "wasm32"))]
        kept,
        layouts: Mutex::default(),
        uploading: AtomicU64::new(0),
        poller,
    }))
}

/// In a browser wgpu 30 neither asks for subgroups nor tells of them. Whoever opens the device may
/// have asked for them behind its back, as Wisp's package does; then the device has them.
#[cfg(target_arch = "wasm32")]
fn with_subgroups(
    mut info: DeviceInfo,
    device: &wgpu::Device,
    adapter: &wgpu::Adapter,
) -> DeviceInfo {
    let raw = device.as_webgpu();
    if raw.is_some_and(|raw| raw.features().has("subgroups")) {
        info.capabilities.subgroups = true;
        info.capabilities.min_subgroup_size = adapter.get_info().subgroup_min_size;
    }
    info
}

/// A kernel's source. Browsers want to be told that it uses subgroups; naga does not.
fn source(kernel: &'static Kernel) -> std::borrow::Cow<'static, str> {
    match kernel.needs.subgroups && cfg!(target_arch = "wasm32") {
        true => format!("enable subgroups;\n{}", kernel.wgsl).into(),
        false => kernel.wgsl.into(),
    }
}

/// The first error that the device reported and no call has returned yet.
#[derive(Clone, Debug, Default)]
struct ErrorSlot(Arc<Mutex<Option<DeviceError>>>);

impl ErrorSlot {
    fn lock(&self) -> MutexGuard<'_, Option<DeviceError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, error: DeviceError) {
        self.lock().get_or_insert(error);
    }

    /// Takes the error that the device reported, naming what was being done.
    fn check(&self, doing: &str, size: u64) -> Result<(), DeviceError> {
        match self.lock().take() {
            None => Ok(()),
            Some(DeviceError::OutOfMemory { device, .. }) => Err(DeviceError::OutOfMemory {
                label: doing.into(),
                bytes: size,
                device,
            }),
            Some(DeviceError::Validation {
                device, message, ..
            }) => Err(DeviceError::Validation {
                what: doing.into(),
                device,
                message,
            }),
            Some(other) => Err(other),
        }
    }
}

/// Keeps the first error that the device reports.
fn watch(device: &wgpu::Device, name: &str, slot: &ErrorSlot) {
    let (errors, label) = (slot.clone(), name.to_string());
    device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
        let message = error.to_string();
        let device = label.clone();
        let error = match error {
            wgpu::Error::OutOfMemory { .. } => DeviceError::OutOfMemory {
                label: "a buffer".into(),
                bytes: 0,
                device,
            },
            _ => DeviceError::Validation {
                what: "a command".into(),
                device,
                message,
            },
        };
        errors.keep(error);
    }));
    let (errors, label) = (slot.clone(), name.to_string());
    device.set_device_lost_callback(move |reason, message| {
        if reason != wgpu::DeviceLostReason::Destroyed {
            errors.keep(DeviceError::Lost {
                device: label.clone(),
                message,
            });
        }
    });
}

impl WgpuDevice {
    fn check(&self, doing: &str, size: u64) -> Result<(), DeviceError> {
        self.error.check(doing, size)
    }

    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn layout(&self, kernel: &'static Kernel) -> wgpu::BindGroupLayout {
        let mut layouts = self.layouts.lock().unwrap_or_else(PoisonError::into_inner);
        let layout = layouts.entry(kernel.bindings).or_insert_with(|| {
            let entry = |(binding, access): (usize, &Access)| wgpu::BindGroupLayoutEntry {
                binding: binding as u32,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: match access {
                        Access::Uniform => wgpu::BufferBindingType::Uniform,
                        Access::Read => wgpu::BufferBindingType::Storage { read_only: true },
                        Access::Write => wgpu::BufferBindingType::Storage { read_only: false },
                    },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            };
            let entries: Vec<_> = kernel.bindings.iter().enumerate().map(entry).collect();
            self.device
                .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                    label: Some(kernel.op),
                    entries: &entries,
                })
        });
        layout.clone()
    }

    fn module(&self, kernel: &'static Kernel, checks: Checks) -> wgpu::ShaderModule {
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some(kernel.name),
            source: wgpu::ShaderSource::Wgsl(source(kernel)),
        };
        match checks {
            Checks::All => self.device.create_shader_module(descriptor),
            // SAFETY: the built-in kernels are validated by naga when wisp-shaders is built, their loops
            // are bounded by their parameters, and every index is kept in range by the kernel itself;
            // the tests run each of them over odd sizes against its host twin. Nothing else comes here.
            Checks::None => unsafe {
                self.device.create_shader_module_trusted(
                    descriptor,
                    wgpu::ShaderRuntimeChecks::unchecked(),
                )
            },
        }
    }

    /// Makes a pipeline. In a browser this returns at once and its GPU process compiles, one after the
    /// other; wgpu has no `createComputePipelineAsync`. Wisp's package puts it behind this call.
    fn compile(&self, kernel: &'static Kernel, checks: Checks) -> wgpu::ComputePipeline {
        let module = self.module(kernel, checks);
        #[cfg(not(target_arch = "wasm32"))]
        let cache = self.kept.cache();
        #[cfg(target_arch = "wasm32")]
        let cache: Option<wgpu::PipelineCache> = None;
        let layout = self
            .device
            .create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: Some(kernel.op),
                bind_group_layouts: &[Some(&self.layout(kernel))],
                immediate_size: 0,
            });
        self.device
            .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(kernel.name),
                layout: Some(&layout),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    zero_initialize_workgroup_memory: checks == Checks::All,
                    ..Default::default()
                },
                cache: cache.as_ref(),
            })
    }

    /// Submits a copy of part of a buffer, after everything recorded so far, and fetches it.
    fn start_read(
        &self,
        buffer: &Buffer,
        range: Range<u64>,
    ) -> Result<impl Future<Output = Result<Vec<u8>, DeviceError>> + use<>, DeviceError> {
        let bytes = range.end - range.start;
        let raw = raw(buffer)?;
        let staging = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("readback"),
            size: bytes,
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut recorder = self.recorder();
        let submits_dispatches = recorder.has_dispatches();
        let encoder = recorder.encoder(&self.device);
        encoder.copy_buffer_to_buffer(raw, range.start, &staging, 0, bytes);
        let index = self.queue.submit(recorder.finish());
        drop(recorder);
        let read = self.fetch(staging, index);
        if submits_dispatches {
            self.check("a submission", 0)?;
        }
        let (error, label) = (self.error.clone(), buffer.label.clone());
        Ok(async move {
            let read = read.await;
            error.check(&label, bytes)?;
            read
        })
    }

    /// Brings what a submission leaves in a staging buffer to the host.
    fn fetch(
        &self,
        staging: wgpu::Buffer,
        index: wgpu::SubmissionIndex,
    ) -> impl Future<Output = Result<Vec<u8>, DeviceError>> + use<> {
        let (sender, receiver) = oneshot::channel();
        staging.map_async(wgpu::MapMode::Read, .., move |result| {
            let _ = sender.send(result);
        });
        self.poller.wait(index);
        let device = self.info.name.clone();
        async move {
            let failed = |message: String| DeviceError::Lost { device, message };
            match receiver.await {
                Ok(Ok(())) => match staging.get_mapped_range(..) {
                    Ok(view) => Ok(view.to_vec()),
                    Err(error) => Err(failed(error.to_string())),
                },
                Ok(Err(error)) => Err(failed(error.to_string())),
                Err(_) => Err(failed("it stopped answering".into())),
            }
        }
    }
}

fn raw(buffer: &Buffer) -> Result<&wgpu::Buffer, DeviceError> {
    match &buffer.raw {
        RawBuffer::Wgpu(raw) => Ok(raw),
        RawBuffer::Host(_) => Err(DeviceError::ForeignObject(buffer.label.to_string())),
    }
}

impl Backend for WgpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn allocate(&self, label: &str, bytes: u64, usage: Usage) -> Result<RawBuffer, DeviceError> {
        let copies = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size: bytes,
            usage: match usage {
                Usage::Storage => wgpu::BufferUsages::STORAGE | copies,
                Usage::Uniform => wgpu::BufferUsages::UNIFORM | copies,
            },
            mapped_at_creation: false,
        });
        self.check(label, bytes)?;
        Ok(RawBuffer::Wgpu(buffer))
    }

    fn write(&self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let raw = raw(buffer)?;
        let mut recorder = self.recorder();
        // The queue writes before the next submission: too early for what already uses the buffer.
        if recorder.uses(buffer) {
            recorder.submit(&self.queue);
            self.check("a submission", 0)?;
        }
        self.queue.write_buffer(raw, offset, data);
        drop(recorder);
        // Small writes are the steady path; only a checkpoint's upload fills the window.
        let pending = self
            .uploading
            .fetch_add(data.len() as u64, Ordering::Relaxed)
            + data.len() as u64;
        if pending >= UPLOAD_WINDOW {
            self.uploading.store(0, Ordering::Relaxed);
            self.queue.submit([]);
            // A browser paces uploads itself; there this returns at once.
            let _ = self.device.poll(wgpu::PollType::wait_indefinitely());
        }
        self.check(buffer.label(), data.len() as u64)
    }

    fn read(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture {
        match self.start_read(buffer, range) {
            Ok(read) => Box::pin(read),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn copy(
        &self,
        from: &Buffer,
        range: Range<u64>,
        to: &Buffer,
        at: u64,
    ) -> Result<(), DeviceError> {
        self.recorder().copy(&self.device, (from, range), (to, at))
    }

    fn pipeline(
        &self,
        kernel: &'static Kernel,
        checks: Checks,
    ) -> Result<RawPipeline, DeviceError> {
        let pipelines = || {
            self.pipelines
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(pipeline) = pipelines().get(&(kernel.name, checks)) {
            return Ok(RawPipeline::Wgpu(pipeline.clone()));
        }
        // Not under the lock: several threads compile at once.
        let pipeline = self.compile(kernel, checks);
        self.check(kernel.name, 0)?;
        #[cfg(not(target_arch = "wasm32"))]
        self.kept.made();
        let mut pipelines = pipelines();
        let known = pipelines.entry((kernel.name, checks));
        Ok(RawPipeline::Wgpu(known.or_insert(pipeline).clone()))
    }

    fn bind(
        &self,
        kernel: &'static Kernel,
        bindings: &[BufferSlice],
    ) -> Result<RawBindGroup, DeviceError> {
        let mut entries = Vec::with_capacity(bindings.len());
        for (binding, slice) in bindings.iter().enumerate() {
            entries.push(wgpu::BindGroupEntry {
                binding: binding as u32,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: raw(&slice.buffer)?,
                    offset: slice.range.start,
                    size: std::num::NonZeroU64::new(slice.range.end - slice.range.start),
                }),
            });
        }
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(kernel.op),
            layout: &self.layout(kernel),
            entries: &entries,
        });
        self.check(kernel.name, 0)?;
        Ok(RawBindGroup::Wgpu(group))
    }

    fn record(&self, dispatches: &[Dispatch]) -> Result<(), DeviceError> {
        let mut recorder = self.recorder();
        for dispatch in dispatches {
            recorder.dispatch(&self.device, dispatch)?;
            if recorder.is_full() {
                recorder.submit(&self.queue);
            }
        }
        drop(recorder);
        self.check("a submission", 0)
    }

    fn submit(&self) -> Result<(), DeviceError> {
        self.recorder().submit(&self.queue);
        self.check("a submission", 0)
    }

    fn clock(&self) -> Clock {
        match self.has_timestamps() {
            true => Clock::Device,
            false => super::timing::without_timestamps(),
        }
    }

    fn submit_timed(
        &self,
        dispatches: &[Dispatch],
        granularity: Granularity,
    ) -> Result<Spans, DeviceError> {
        match self.has_timestamps() {
            true => self.submit_with_timestamps(dispatches, granularity),
            false => super::timing::by_host(self, dispatches, granularity),
        }
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn use_cache(&self, cache: &wisp_files::DiskCache) {
        self.kept.open(&self.device, cache);
        // One that the driver does not take is no error: pipelines are made without.
        let _ = self.check("a cache of pipelines", 0);
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn save_cache(&self) {
        self.kept.save();
    }

    fn free_memory(&self) -> Option<u64> {
        // WebGPU does not tell; what shares the host's memory has what the host has.
        if self.info.software || self.info.integrated {
            return super::host_memory::free_memory();
        }
        #[cfg(any(windows, target_os = "linux", target_os = "android"))]
        {
            super::vulkan_memory::free(&self.device)
        }
        #[cfg(not(any(windows, target_os = "linux", target_os = "android")))]
        None
    }

    fn driver_allocated(&self) -> Option<u64> {
        let report = self.device.generate_allocator_report()?;
        Some(report.total_allocated_bytes)
    }

    fn finish(&self) -> BoxFuture<'_, Result<(), DeviceError>> {
        Box::pin(async move {
            let (sender, receiver) = oneshot::channel();
            self.recorder().submit(&self.queue);
            let index = self.queue.submit([]);
            self.queue.on_submitted_work_done(move || {
                let _ = sender.send(());
            });
            self.poller.wait(index);
            let answered = receiver.await;
            self.check("a submission", 0)?;
            answered.map_err(|_| DeviceError::Lost {
                device: self.info.name.clone(),
                message: "it stopped answering".into(),
            })
        })
    }
}

/// Lets the device make progress while futures wait: natively a thread of its own, which blocks
/// so that no executor has to; in a browser the event loop does it.
#[derive(Debug)]
struct Poller {
    #[cfg(not(target_arch = "wasm32"))]
    wake: Mutex<std::sync::mpsc::Sender<wgpu::SubmissionIndex>>,
}

impl Poller {
    #[cfg(not(target_arch = "wasm32"))]
    fn new(device: &wgpu::Device) -> Poller {
        let (wake, woken) = std::sync::mpsc::channel();
        let device = device.clone();
        std::thread::spawn(move || {
            while let Ok(index) = woken.recv() {
                // A failure surfaces through the map or done callback and the error handler.
                let _ = device.poll(wgpu::PollType::Wait {
                    submission_index: Some(index),
                    timeout: None,
                });
            }
        });
        Poller {
            wake: Mutex::new(wake),
        }
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn wait(&self, index: wgpu::SubmissionIndex) {
        // The thread lives as long as this sender does.
        let _ = self
            .wake
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(index);
    }

    #[cfg(target_arch = "wasm32")]
    fn new(_: &wgpu::Device) -> Poller {
        Poller {}
    }

    #[cfg(target_arch = "wasm32")]
    fn wait(&self, _: wgpu::SubmissionIndex) {}
}

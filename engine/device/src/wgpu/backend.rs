//! Memory, kernels and commands of an adapter.

use std::{ops::Range, sync::atomic::AtomicU64};

use wisp_shaders::Kernel;
use wisp_types::{BoxFuture, DeviceInfo};

use super::{
    device::WgpuDevice,
    objects::{WgpuBindGroup, WgpuBuffer, buffer_of},
    poller::{self, Answer},
    readback,
};
use crate::{
    backend::Backend,
    buffer::{Buffer, BufferSlice, ReadFuture, Usage},
    compiled::Checks,
    error::DeviceError,
    host_clock,
    object::BackendObject,
    pipeline::Dispatch,
    timing::{Clock, Granularity, Spans},
};

impl Backend for WgpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn allocate(
        &self,
        label: &str,
        bytes: u64,
        usage: Usage,
    ) -> Result<BackendObject, DeviceError> {
        let copies = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let raw = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size: bytes,
            usage: match usage {
                Usage::Storage => wgpu::BufferUsages::STORAGE | copies,
                Usage::Uniform => wgpu::BufferUsages::UNIFORM | copies,
            },
            mapped_at_creation: false,
        });
        self.errors.check(label, bytes)?;
        Ok(BackendObject::new(WgpuBuffer {
            raw,
            last_batch: AtomicU64::new(0),
        }))
    }

    fn write(&self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let target = buffer_of(buffer)?;
        let mut recorder = self.recorder();
        // The queue writes before the next submission: too early for commands that use the buffer.
        if recorder.uses(target) {
            recorder.submit(&self.queue);
            self.check_submission()?;
        }
        self.queue.write_buffer(&target.raw, offset, data);
        drop(recorder);
        let bytes = data.len() as u64;
        // Reads tell of the arrival of the small writes of each step; only a checkpoint's upload fills the window.
        if self.uploads.add(bytes) {
            let written = self.uploads.written();
            self.queue.submit([]);
            // A browser paces uploads itself; there this returns at once.
            if !poller::poll(&self.device, wgpu::PollType::wait_indefinitely()) {
                self.errors.check(buffer.label(), bytes)?;
                return Err(self.stopped_answering());
            }
            self.uploads.note_arrival(written);
        }
        self.errors.check(buffer.label(), bytes)
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

    fn pipeline(&self, kernel: &'static Kernel) -> Result<BackendObject, DeviceError> {
        // SAFETY: the kernel is compiled with checks.
        unsafe { self.find_or_compile(kernel, Checks::On) }
    }

    unsafe fn unchecked_pipeline(
        &self,
        kernel: &'static Kernel,
    ) -> Result<BackendObject, DeviceError> {
        // SAFETY: the caller promises it.
        unsafe { self.find_or_compile(kernel, Checks::Off) }
    }

    fn bind(
        &self,
        kernel: &'static Kernel,
        bindings: &[BufferSlice],
    ) -> Result<BackendObject, DeviceError> {
        let mut entries = Vec::with_capacity(bindings.len());
        for (binding, slice) in bindings.iter().enumerate() {
            entries.push(wgpu::BindGroupEntry {
                binding: binding as u32,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: &buffer_of(&slice.buffer)?.raw,
                    offset: slice.range.start,
                    size: std::num::NonZeroU64::new(slice.bytes()),
                }),
            });
        }
        let raw = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(kernel.op),
            layout: &self.pipelines.layout(kernel),
            entries: &entries,
        });
        self.errors.check(kernel.name, 0)?;
        let buffers = bindings.iter().map(|slice| slice.buffer.clone()).collect();
        Ok(BackendObject::new(WgpuBindGroup { raw, buffers }))
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
        self.check_submission()
    }

    fn submit(&self) -> Result<(), DeviceError> {
        self.recorder().submit(&self.queue);
        self.check_submission()
    }

    fn clock(&self) -> Clock {
        match self.has_timestamps() {
            true => Clock::Device,
            false => host_clock::clock(),
        }
    }

    fn submit_timed(
        &self,
        dispatches: &[Dispatch],
        granularity: Granularity,
    ) -> Result<Spans, DeviceError> {
        match self.has_timestamps() {
            true => self.submit_with_timestamps(dispatches, granularity),
            false => host_clock::submit_timed(self, dispatches, granularity),
        }
    }

    fn finish(&self) -> BoxFuture<'_, Result<(), DeviceError>> {
        let (answer, receiver) = Answer::new();
        let mut recorder = self.recorder();
        let written = self.uploads.written();
        recorder.submit(&self.queue);
        let index = self.queue.submit([]);
        drop(recorder);
        let done = answer.clone();
        self.queue.on_submitted_work_done(move || done.send(()));
        self.poller.wait(index, answer);
        Box::pin(async move {
            let done = receiver.await;
            self.check_submission()?;
            done.map_err(|_| self.stopped_answering())?;
            self.uploads.note_arrival(written);
            Ok(())
        })
    }

    fn free_memory(&self) -> Option<u64> {
        // WebGPU does not say. Adapters that share the host's memory have what the host has, of which a driver may give
        // them only a part.
        let shared = self.info.software || self.info.integrated;
        let host = shared.then(crate::host::memory::free).flatten();
        match self.info.software {
            true => host,
            false => [host, self.driver_free()].into_iter().flatten().min(),
        }
    }

    fn driver_allocated(&self) -> Option<u64> {
        let report = self.device.generate_allocator_report()?;
        Some(report.total_allocated_bytes)
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn use_cache(&self, cache: &wisp_files::DiskCache) {
        self.pipelines.driver_cache.open(&self.device, cache);
        // A file that the driver does not accept is no error: pipelines are compiled without it.
        let _ = self.errors.check("a cache of pipelines", 0);
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn save_cache(&self) {
        self.pipelines.driver_cache.save();
    }
}

impl WgpuDevice {
    /// The error of a device that does not answer any more.
    fn stopped_answering(&self) -> DeviceError {
        DeviceError::Lost {
            device: self.info.name.clone(),
            message: readback::NO_ANSWER.into(),
        }
    }

    /// Returns the bytes that the driver says are free, if it does.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn driver_free(&self) -> Option<u64> {
        super::vulkan_memory::free(&self.device)
    }

    #[cfg(windows)]
    fn driver_free(&self) -> Option<u64> {
        let vulkan = super::vulkan_memory::free(&self.device);
        vulkan.or_else(|| super::dx12_memory::free(&self.adapter))
    }

    #[cfg(target_os = "macos")]
    fn driver_free(&self) -> Option<u64> {
        super::metal_memory::free(&self.device)
    }

    #[cfg(not(any(
        windows,
        target_os = "linux",
        target_os = "android",
        target_os = "macos"
    )))]
    fn driver_free(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, DeviceOptions, Pipeline};

    #[test]
    fn only_built_in_kernels_are_compiled_without_checks() {
        let device = Device::open_blocking(&"vulkan".parse().unwrap(), DeviceOptions::default());
        let device = match device {
            Err(DeviceError::NoAdapter { .. }) => return println!("skipped: no Vulkan adapter"),
            device => device.unwrap(),
        };
        let of = |pipeline: Result<Pipeline, DeviceError>| -> wgpu::ComputePipeline {
            let pipeline = pipeline.unwrap();
            let raw: Result<&wgpu::ComputePipeline, _> = pipeline.object.get("a pipeline");
            raw.unwrap().clone()
        };
        // SAFETY: the pipelines are never dispatched.
        let unchecked = |kernel| of(unsafe { device.unchecked_pipeline(kernel) });
        let checked = |kernel| of(device.pipeline(kernel));
        let built_in = wisp_shaders::kernels().first().unwrap();
        assert_ne!(checked(built_in), unchecked(built_in));
        assert_eq!(unchecked(built_in), unchecked(built_in));
        let copy: &'static Kernel = Box::leak(Box::new(Kernel { ..*built_in }));
        assert_eq!(checked(copy), unchecked(copy));
        assert_ne!(checked(copy), checked(built_in));
    }
}

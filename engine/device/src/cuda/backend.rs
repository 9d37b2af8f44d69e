//! Memory, kernels and commands of a card.

use std::{ops::Range, sync::Arc};

use cudarc::driver::{
    DriverError, result,
    sys::{self, CUresult},
};
use futures_channel::oneshot::Canceled;
use wisp_files::DiskCache;
use wisp_shaders::{Access, Kernel};
use wisp_types::{BoxFuture, DeviceInfo};

use super::{
    device::{CudaDevice, SUBMISSION},
    graph::{self, Graph},
    launch::{check_sizes, launch_all},
    objects::{Bound, CudaBindGroup, CudaBuffer, CudaKernel, buffer_of},
};
use crate::{
    backend::Backend,
    buffer::{Buffer, BufferSlice, ReadFuture, Usage},
    compiled::Checks,
    error::DeviceError,
    object::BackendObject,
    pipeline::{BindGroup, Dispatch, Pipeline},
    timing::{Clock, Granularity, Spans},
};

/// Bytes from which on memory is allocated by itself rather than from the driver's pool: weights and caches, which
/// are allocated once and give all of their memory back.
const PLAIN_BYTES: u64 = 32 << 20;

impl Backend for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn allocate(&self, label: &str, bytes: u64, _: Usage) -> Result<BackendObject, DeviceError> {
        self.begin(label)?;
        let failed = |error| self.errors.of(label, bytes, error);
        let pooled = bytes < PLAIN_BYTES && self.stream.context().has_async_alloc();
        let (stream, count) = (self.stream.cu_stream(), bytes as usize);
        // SAFETY: `CudaBuffer` frees the memory, once. It is cleared before anything reads it.
        let allocate = || unsafe {
            match pooled {
                true => result::malloc_async(stream, count),
                false => result::malloc_sync(count),
            }
        };
        let address = allocate().or_else(|error| {
            self.give_back_pool(error)?;
            allocate()
        });
        let buffer = CudaBuffer {
            address: address.map_err(failed)?,
            pooled,
            stream: self.stream.clone(),
        };
        // SAFETY: the memory has as many bytes.
        unsafe { result::memset_d8_async(buffer.address, 0, count, stream) }.map_err(failed)?;
        Ok(BackendObject::new(buffer))
    }

    fn write(&self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let target = buffer_of(buffer)?.address + offset;
        self.begin(buffer.label())?;
        // SAFETY: `Device` has checked that the range is within the buffer, which is freed in the stream's order.
        let written = unsafe { self.staging().write(target, data) };
        self.errors.check(buffer.label(), written)
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
        let source = buffer_of(from)?.address + range.start;
        let target = buffer_of(to)?.address + at;
        self.begin(to.label())?;
        let (bytes, stream) = ((range.end - range.start) as usize, self.stream.cu_stream());
        // SAFETY: `Device` has checked that both ranges are within their buffers.
        let copied = unsafe { result::memcpy_dtod_async(target, source, bytes, stream) };
        self.errors.check(to.label(), copied)
    }

    fn pipeline(&self, kernel: &'static Kernel) -> Result<BackendObject, DeviceError> {
        self.find_or_compile(kernel, Checks::On)
    }

    unsafe fn unchecked_pipeline(
        &self,
        kernel: &'static Kernel,
    ) -> Result<BackendObject, DeviceError> {
        self.find_or_compile(kernel, Checks::Off)
    }

    fn bind(
        &self,
        kernel: &'static Kernel,
        bindings: &[BufferSlice],
    ) -> Result<BackendObject, DeviceError> {
        check_overlaps(kernel, bindings)?;
        let bound = |slice: &BufferSlice| -> Result<Bound, DeviceError> {
            Ok(Bound {
                address: buffer_of(&slice.buffer)?.address + slice.range.start,
                // `Device` has checked it against `max_binding_bytes`.
                bytes: u32::try_from(slice.bytes()).unwrap_or(u32::MAX),
            })
        };
        let group = CudaBindGroup {
            bindings: bindings.iter().map(bound).collect::<Result<_, _>>()?,
            buffers: bindings.iter().map(|slice| slice.buffer.clone()).collect(),
        };
        Ok(BackendObject::new(group))
    }

    fn check_dispatch(&self, pipeline: &Pipeline, group: &BindGroup) -> Result<(), DeviceError> {
        let name = pipeline.kernel.name;
        let kernel: &Arc<CudaKernel> = pipeline.object.get(name)?;
        check_sizes(name, kernel, group.object.get(name)?)
    }

    fn record(&self, dispatches: &[Dispatch]) -> Result<(), DeviceError> {
        self.begin(SUBMISSION)?;
        launch_all(&self.errors, &self.stream, dispatches)
    }

    fn prepare(&self, dispatches: &[Dispatch]) -> Result<Option<BackendObject>, DeviceError> {
        if self.launches_block {
            return Ok(None);
        }
        // Without a graph, for which memory may be short, the dispatches are launched one by one; a lost device shows then.
        let graph = self.graphs().captured(dispatches).ok();
        Ok(graph.map(|graph| BackendObject::new(Arc::new(graph))))
    }

    fn replay(&self, prepared: &BackendObject) -> Result<(), DeviceError> {
        let graph: &Arc<Graph> = prepared.get(graph::WHAT)?;
        let is_full = self.graphs().record(graph);
        match is_full {
            true => self.begin(graph::WHAT),
            false => Ok(()),
        }
    }

    fn submit(&self) -> Result<(), DeviceError> {
        self.begin(SUBMISSION)?;
        if cfg!(windows) {
            // There the driver gathers work until it is asked how far it is. An error shows at the next call.
            // SAFETY: the stream is alive.
            let _ = unsafe { sys::cuStreamQuery(self.stream.cu_stream()) };
        }
        Ok(())
    }

    fn clock(&self) -> Clock {
        Clock::Device
    }

    fn submit_timed(
        &self,
        dispatches: &[Dispatch],
        granularity: Granularity,
    ) -> Result<Spans, DeviceError> {
        self.submit_with_events(dispatches, granularity)
    }

    fn finish(&self) -> BoxFuture<'_, Result<(), DeviceError>> {
        let done = self.begin(SUBMISSION).and_then(|()| self.launched_so_far());
        let done = done.map(|event| self.waiter.after(event, ()));
        Box::pin(async move {
            let reached = answer(done?.await);
            self.errors.check(SUBMISSION, reached)
        })
    }

    fn free_memory(&self) -> Option<u64> {
        // What was only recorded keeps the memory of models that were dropped, and the driver's pool gives back what is
        // freed when the device is waited for. An error shows at the next call.
        match self.begin(SUBMISSION) {
            Ok(()) => drop(self.stream.synchronize()),
            Err(error) => self.graphs().fail(error),
        }
        let (free, _) = self.stream.context().mem_get_info().ok()?;
        // A card that shares the host's memory counts the cache of files as used, which the host gives up on demand.
        let host = self.info.integrated.then(crate::host::memory::free);
        host.flatten().or(Some(free as u64))
    }

    fn use_cache(&self, cache: &DiskCache) {
        self.compiler.use_cache(cache);
    }
}

impl CudaDevice {
    /// Gives back the memory that was freed and is still the pool's, after an error that says that there is none.
    ///
    /// # Errors
    ///
    /// The error that is given, if it is another one, or the driver's.
    fn give_back_pool(&self, error: DriverError) -> Result<(), DriverError> {
        let context = self.stream.context();
        if error.0 != CUresult::CUDA_ERROR_OUT_OF_MEMORY || !context.has_async_alloc() {
            return Err(error);
        }
        // What was freed in the stream's order becomes free when the stream gets there.
        self.stream.synchronize()?;
        // SAFETY: the device is that of the context, and its default pool always exists.
        unsafe {
            let pool = result::device::get_default_mem_pool(context.cu_device())?;
            result::mem_pool::trim_to(pool, 0)
        }
    }

    fn find_or_compile(
        &self,
        kernel: &'static Kernel,
        checks: Checks,
    ) -> Result<BackendObject, DeviceError> {
        if let Some(found) = self.compiled.find(kernel, checks) {
            return Ok(BackendObject::new(found));
        }
        // Not under a lock: several threads compile at once.
        let made = self.compiler.compile(&self.stream, kernel, checks)?;
        let kept = self.compiled.keep(kernel, checks, Arc::new(made));
        Ok(BackendObject::new(kept))
    }

    /// Starts to copy part of a buffer to the program's memory, after everything recorded before.
    fn start_read(
        &self,
        buffer: &Buffer,
        range: Range<u64>,
    ) -> Result<impl Future<Output = Result<Vec<u8>, DeviceError>> + use<>, DeviceError> {
        let count = (range.end - range.start) as usize;
        let source = buffer_of(buffer)?.address + range.start;
        self.begin(buffer.label())?;
        let block = self.readback.take(self.stream.context(), count);
        let mut block = self.errors.check("memory for reading", block)?;
        let target = &mut block.bytes_mut()[..count];
        // SAFETY: `Device` has checked the range; the waiter keeps the block until the copy is over.
        let copying = unsafe { result::memcpy_dtoh_async(target, source, self.stream.cu_stream()) };
        self.errors.check(buffer.label(), copying)?;
        let event = self.launched_so_far().inspect_err(|_| {
            // The block ends with this function, and the device may still be copying to it.
            self.stream.synchronize().ok();
        })?;
        let copied = self.waiter.after(event, block);
        let (errors, label) = (self.errors.clone(), buffer.label.clone());
        let readback = self.readback.clone();
        Ok(async move {
            let block = errors.check(&label, answer(copied.await))?;
            let bytes = block.bytes()[..count].to_vec();
            readback.give_back(block);
            Ok(bytes)
        })
    }
}

/// Checks that a kernel does not write what it also reads through another binding: it is compiled for memory that does not
/// change meanwhile.
fn check_overlaps(kernel: &Kernel, bindings: &[BufferSlice]) -> Result<(), DeviceError> {
    let of = |access: Access| {
        let all = bindings.iter().zip(kernel.bindings);
        all.filter(move |(_, own)| **own == access)
            .map(|(slice, _)| slice)
    };
    let overlaps = |a: &BufferSlice, b: &BufferSlice| {
        a.buffer.is(&b.buffer) && a.range.start < b.range.end && b.range.start < a.range.end
    };
    let mut written = of(Access::Write);
    let both = written.find(|written| of(Access::Read).any(|read| overlaps(written, read)));
    match both {
        None => Ok(()),
        Some(slice) => Err(DeviceError::ReadAndWritten {
            kernel: kernel.name.into(),
            label: slice.buffer.label.to_string(),
        }),
    }
}

/// What the waiter answers; it never answers only if its thread has died.
pub(super) fn answer<T>(
    answer: Result<Result<T, DriverError>, Canceled>,
) -> Result<T, DriverError> {
    answer.unwrap_or(Err(DriverError(CUresult::CUDA_ERROR_UNKNOWN)))
}

//! The host CPU as a device: the kernels' twins over the program's own memory, on a pool of threads.

pub(crate) mod memory;
mod threads;

use std::{
    ops::Range,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use wisp_host::{Args, Binding, HostBuffer, OutOfBounds, Twin, twin};
use wisp_shaders::Kernel;
use wisp_types::{Api, BoxFuture, Capabilities, DeviceInfo, PARAMS_STRIDE};

use crate::{
    backend::Backend,
    buffer::{Buffer, BufferSlice, ReadFuture, Usage},
    error::DeviceError,
    host_clock,
    object::BackendObject,
    pipeline::Dispatch,
    timing::{Clock, Granularity, Spans},
};

use threads::Threads;

/// The host CPU. Its threads start when it first runs something.
#[derive(Debug)]
pub(crate) struct HostDevice {
    info: DeviceInfo,
    num_threads: usize,
    /// Unset until the threads start; then `None` on targets that have no threads.
    threads: OnceLock<Option<Arc<Threads>>>,
    /// Held while a record runs: other devices take turns within it, but not what may use the same buffers.
    recording: Mutex<()>,
}

/// Returns the number of threads that stands for `num_threads` (0: what `RAYON_NUM_THREADS` says, or one for each core).
fn thread_count(num_threads: usize) -> usize {
    let set = || std::env::var("RAYON_NUM_THREADS").ok()?.parse().ok();
    let given = Some(num_threads).filter(|count| *count > 0);
    let given = given.or_else(|| set().filter(|count| *count > 0));
    given.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Describes the host with this many threads (0: one for each core).
pub(crate) fn info(num_threads: usize) -> DeviceInfo {
    let threads = thread_count(num_threads);
    DeviceInfo {
        name: "host CPU".into(),
        api: Api::Host,
        software: true,
        integrated: true,
        driver: format!("{threads} threads"),
        capabilities: Capabilities::HOST,
    }
}

impl HostDevice {
    /// Makes a host device with `num_threads` threads (0: one for each core), which do not start yet.
    pub fn new(num_threads: usize) -> HostDevice {
        HostDevice {
            info: info(num_threads),
            num_threads,
            threads: OnceLock::new(),
            recording: Mutex::default(),
        }
    }

    /// Starts the threads, if they are not running.
    pub fn start(&self) -> Result<(), DeviceError> {
        self.threads().map(drop)
    }

    /// Returns the threads, which start if they are not running. Without threads the caller's runs
    /// everything.
    fn threads(&self) -> Result<Option<&Threads>, DeviceError> {
        if let Some(threads) = self.threads.get() {
            return Ok(threads.as_deref());
        }
        let threads = match cfg!(target_arch = "wasm32") {
            true => None,
            false => {
                let threads = Threads::shared(thread_count(self.num_threads));
                Some(threads.map_err(|message| self.no_threads(message))?)
            }
        };
        Ok(self.threads.get_or_init(|| threads).as_deref())
    }

    fn no_threads(&self, message: String) -> DeviceError {
        DeviceError::Threads {
            device: self.info.name.clone(),
            threads: self.info.driver.clone(),
            message,
        }
    }
}

fn memory_of(buffer: &Buffer) -> Result<&HostBuffer, DeviceError> {
    buffer.object.get(&buffer.label)
}

fn out_of_bounds(buffer: &Buffer, error: OutOfBounds) -> DeviceError {
    DeviceError::OutOfBounds {
        label: buffer.label.to_string(),
        start: error.offset as u64,
        end: error.offset.saturating_add(error.bytes) as u64,
        bytes: error.len as u64,
    }
}

fn read(buffer: &Buffer, range: Range<u64>) -> Result<Vec<u8>, DeviceError> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    memory_of(buffer)?
        .read(range.start as usize, &mut bytes)
        .map_err(|error| out_of_bounds(buffer, error))?;
    Ok(bytes)
}

/// The most bytes of parameters that a kernel has: what a program reserves for a call.
const MAX_PARAMS: usize = PARAMS_STRIDE as usize;

/// Runs one twin. Binding 0 holds the parameters.
fn run(dispatch: &Dispatch) -> Result<(), DeviceError> {
    if dispatch.workgroups().contains(&0) {
        return Ok(());
    }
    let kernel = dispatch.kernel();
    let twin: &Twin = dispatch.pipeline.object.get(kernel.name)?;
    let bindings: &Vec<BufferSlice> = dispatch.group.object.get(kernel.name)?;
    let [uniform, memory @ ..] = &bindings[..] else {
        return Err(DeviceError::BindingCount {
            kernel: kernel.name.into(),
            expected: kernel.bindings.len(),
            given: 0,
        });
    };
    let mut params = [0u8; MAX_PARAMS];
    let bytes = (uniform.bytes() as usize).min(MAX_PARAMS);
    memory_of(&uniform.buffer)?
        .read(uniform.range.start as usize, &mut params[..bytes])
        .map_err(|error| out_of_bounds(&uniform.buffer, error))?;
    let mut bindings = Vec::with_capacity(memory.len());
    for (i, slice) in memory.iter().enumerate() {
        bindings.push(Binding {
            number: i + 1,
            buffer: memory_of(&slice.buffer)?,
            offset: slice.range.start as usize,
            len: slice.bytes() as usize,
        });
    }
    Ok(twin(&Args::new(kernel.op, &params[..bytes], &bindings)?)?)
}

impl Backend for HostDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn allocate(
        &self,
        label: &str,
        bytes: u64,
        _usage: Usage,
    ) -> Result<BackendObject, DeviceError> {
        let buffer = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| HostBuffer::new(bytes).ok());
        buffer
            .map(BackendObject::new)
            .ok_or_else(|| DeviceError::OutOfMemory {
                label: label.into(),
                bytes,
                device: self.info.name.clone(),
            })
    }

    fn write(&self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        memory_of(buffer)?
            .write(offset as usize, data)
            .map_err(|error| out_of_bounds(buffer, error))
    }

    fn read(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture {
        Box::pin(std::future::ready(read(buffer, range)))
    }

    fn copy(
        &self,
        from: &Buffer,
        range: Range<u64>,
        to: &Buffer,
        at: u64,
    ) -> Result<(), DeviceError> {
        self.write(to, at, &read(from, range)?)
    }

    // Twins always check their memory.
    fn pipeline(&self, kernel: &'static Kernel) -> Result<BackendObject, DeviceError> {
        let twin = twin(kernel.op).ok_or_else(|| DeviceError::NoTwin {
            kernel: kernel.name.into(),
        })?;
        Ok(BackendObject::new(twin))
    }

    fn twin_pipeline(&self, twin: Twin) -> Option<BackendObject> {
        Some(BackendObject::new(twin))
    }

    fn bind(
        &self,
        _kernel: &'static Kernel,
        bindings: &[BufferSlice],
    ) -> Result<BackendObject, DeviceError> {
        Ok(BackendObject::new(bindings.to_vec()))
    }

    fn record(&self, dispatches: &[Dispatch]) -> Result<(), DeviceError> {
        let threads = self.threads()?;
        // Poisoning is harmless: it guards nothing by itself.
        let _alone = self
            .recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match threads {
            Some(threads) => threads
                .run(dispatches, run)
                .map_err(|e| self.no_threads(e))?,
            None => dispatches.iter().try_for_each(run),
        }
    }

    fn clock(&self) -> Clock {
        host_clock::clock()
    }

    fn submit_timed(
        &self,
        dispatches: &[Dispatch],
        granularity: Granularity,
    ) -> Result<Spans, DeviceError> {
        host_clock::submit_timed(self, dispatches, granularity)
    }

    fn finish(&self) -> BoxFuture<'_, Result<(), DeviceError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn free_memory(&self) -> Option<u64> {
        memory::free()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    #[test]
    fn kernel_without_a_twin_is_an_error() {
        let kernel: &'static Kernel = Box::leak(Box::new(Kernel {
            op: "nothing",
            name: "nothing.baseline",
            ..*wisp_shaders::kernels().first().unwrap()
        }));
        let pipeline = Device::host(1).unwrap().pipeline(kernel);
        assert_eq!(
            pipeline.unwrap_err().to_string(),
            "nothing.baseline does not run on the host: it has no twin there"
        );
    }
}

//! The host as a device: the kernels' twins over plain memory, on a pool of threads.

use std::{ops::Range, sync::OnceLock};

use wisp_shaders::Kernel;

use crate::{
    Backend, Buffer, BufferSlice, Checks, DeviceError, Dispatch, RawBindGroup, RawBuffer,
    RawPipeline, ReadFuture, Usage,
};
use wisp_host::{Args, Binding, HostBuffer, OutOfBounds, twin};
use wisp_types::{Api, BoxFuture, Capabilities, DeviceInfo};

/// The CPU as a device. Its threads start when it first runs something.
#[derive(Debug)]
pub struct HostDevice {
    info: DeviceInfo,
    num_threads: usize,
    /// None on a target without threads.
    pool: OnceLock<Option<rayon::ThreadPool>>,
}

/// What the host device is with this many threads; 0 is one a core.
pub(crate) fn info(num_threads: usize) -> DeviceInfo {
    let threads = match num_threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        given => given,
    };
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
    /// A host device with `num_threads` threads; 0 is one a core.
    pub(crate) fn new(num_threads: usize) -> HostDevice {
        HostDevice {
            info: info(num_threads),
            num_threads,
            pool: OnceLock::new(),
        }
    }

    /// The threads, which are started if they are not yet. Without any, work is done by the caller.
    pub(crate) fn threads(&self) -> Result<Option<&rayon::ThreadPool>, DeviceError> {
        if let Some(pool) = self.pool.get() {
            return Ok(pool.as_ref());
        }
        let pool = match cfg!(target_arch = "wasm32") {
            true => None,
            false => {
                let builder = rayon::ThreadPoolBuilder::new().num_threads(self.num_threads);
                let failed = |error: rayon::ThreadPoolBuildError| DeviceError::Validation {
                    what: self.info.driver.clone(),
                    device: self.info.name.clone(),
                    message: error.to_string(),
                };
                Some(builder.build().map_err(failed)?)
            }
        };
        Ok(self.pool.get_or_init(|| pool).as_ref())
    }
}

fn raw(buffer: &Buffer) -> Result<&HostBuffer, DeviceError> {
    match &buffer.raw {
        RawBuffer::Host(raw) => Ok(raw),
        #[cfg(feature = "wgpu")]
        RawBuffer::Wgpu(_) => Err(DeviceError::ForeignObject(buffer.label.to_string())),
    }
}

fn outside(buffer: &Buffer, error: OutOfBounds) -> DeviceError {
    DeviceError::OutOfBounds {
        label: buffer.label.to_string(),
        start: error.offset as u64,
        end: error.offset.saturating_add(error.bytes) as u64,
        bytes: error.len as u64,
    }
}

/// The most bytes of parameters that an op has: what a program keeps for a call.
const MAX_PARAMS: usize = wisp_types::PARAMS_STRIDE as usize;

/// Runs one twin. Binding 0 holds the parameters.
fn run(dispatch: &Dispatch) -> Result<(), DeviceError> {
    let kernel = dispatch.pipeline.kernel;
    let (RawPipeline::Host(twin), RawBindGroup::Host) =
        (&dispatch.pipeline.raw, &dispatch.group.raw)
    else {
        return Err(DeviceError::ForeignObject(kernel.name.into()));
    };
    let [uniform, memory @ ..] = &dispatch.group.bindings[..] else {
        return Err(DeviceError::ForeignObject(kernel.name.into()));
    };
    let mut params = [0u8; MAX_PARAMS];
    let bytes = ((uniform.range.end - uniform.range.start) as usize).min(MAX_PARAMS);
    raw(&uniform.buffer)?
        .read(uniform.range.start as usize, &mut params[..bytes])
        .map_err(|error| outside(&uniform.buffer, error))?;
    let mut bindings = Vec::with_capacity(memory.len());
    for (i, slice) in memory.iter().enumerate() {
        bindings.push(Binding {
            number: i + 1,
            buffer: raw(&slice.buffer)?,
            offset: slice.range.start as usize,
            len: (slice.range.end - slice.range.start) as usize,
        });
    }
    Ok(twin(&Args::new(kernel.op, &params[..bytes], &bindings)?)?)
}

impl Backend for HostDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn allocate(&self, label: &str, bytes: u64, _usage: Usage) -> Result<RawBuffer, DeviceError> {
        let buffer = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| HostBuffer::new(bytes).ok());
        buffer
            .map(RawBuffer::Host)
            .ok_or_else(|| DeviceError::OutOfMemory {
                label: label.into(),
                bytes,
                device: self.info.name.clone(),
            })
    }

    fn write(&self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        raw(buffer)?
            .write(offset as usize, data)
            .map_err(|error| outside(buffer, error))
    }

    fn read(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture {
        let read = || {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            raw(buffer)?
                .read(range.start as usize, &mut bytes)
                .map_err(|error| outside(buffer, error))?;
            Ok(bytes)
        };
        Box::pin(std::future::ready(read()))
    }

    fn copy(
        &self,
        from: &Buffer,
        range: Range<u64>,
        to: &Buffer,
        at: u64,
    ) -> Result<(), DeviceError> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        raw(from)?
            .read(range.start as usize, &mut bytes)
            .map_err(|error| outside(from, error))?;
        self.write(to, at, &bytes)
    }

    // Twins check everything always.
    fn pipeline(
        &self,
        kernel: &'static Kernel,
        _checks: Checks,
    ) -> Result<RawPipeline, DeviceError> {
        twin(kernel.op)
            .map(RawPipeline::Host)
            .ok_or_else(|| DeviceError::Validation {
                what: kernel.name.into(),
                device: self.info.name.clone(),
                message: "the host has no twin of it".into(),
            })
    }

    fn bind(
        &self,
        _kernel: &'static Kernel,
        bindings: &[BufferSlice],
    ) -> Result<RawBindGroup, DeviceError> {
        bindings
            .iter()
            .try_for_each(|slice| raw(&slice.buffer).map(|_| ()))?;
        Ok(RawBindGroup::Host)
    }

    fn record(&self, dispatches: &[Dispatch]) -> Result<(), DeviceError> {
        let run_all = || dispatches.iter().try_for_each(run);
        match self.threads()? {
            Some(pool) => pool.install(run_all),
            None => run_all(),
        }
    }

    fn finish(&self) -> BoxFuture<'_, Result<(), DeviceError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn free_memory(&self) -> Option<u64> {
        super::host_memory::free_memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    #[test]
    fn a_kernel_without_a_twin_is_told() {
        let kernel: &'static Kernel = Box::leak(Box::new(Kernel {
            op: "nothing",
            name: "nothing.baseline",
            ..*wisp_shaders::kernels().first().unwrap()
        }));
        let made = Device::host(1).unwrap().pipeline(kernel);
        assert_eq!(
            made.unwrap_err().to_string(),
            "host CPU refused nothing.baseline: the host has no twin of it"
        );
    }
}

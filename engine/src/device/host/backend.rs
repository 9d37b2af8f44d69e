//! The host as a device: the kernels' twins over plain memory, on a pool of threads.

use std::{ops::Range, sync::Arc};

use wisp_shaders::Kernel;

use super::{Args, HostBuffer, HostError, twin};
use crate::device::{
    Api, Backend, BoxFuture, Buffer, BufferSlice, Capabilities, DeviceError, DeviceInfo, Dispatch, RawBindGroup, RawBuffer,
    RawPipeline, Usage,
};

/// The CPU as a device.
#[derive(Debug)]
pub struct HostDevice {
    info: DeviceInfo,
    pool: rayon::ThreadPool,
}

/// What the host device is.
pub(crate) fn info() -> DeviceInfo {
    DeviceInfo {
        name: "host CPU".into(),
        api: Api::Host,
        software: true,
        integrated: true,
        driver: format!("{} threads", std::thread::available_parallelism().map_or(1, usize::from)),
        capabilities: Capabilities::HOST,
    }
}

impl HostDevice {
    /// A host device with `num_threads` threads; 0 is one a core.
    pub(crate) fn new(num_threads: usize) -> Result<HostDevice, DeviceError> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(num_threads).build().map_err(|error| DeviceError::Validation {
            what: format!("{num_threads} threads"),
            device: "host CPU".into(),
            message: error.to_string(),
        })?;
        let mut info = info();
        info.driver = format!("{} threads", pool.current_num_threads());
        Ok(HostDevice { info, pool })
    }
}

fn raw(buffer: &Buffer) -> Result<&HostBuffer, DeviceError> {
    match &buffer.raw {
        RawBuffer::Host(raw) => Ok(raw),
        #[cfg(feature = "wgpu")]
        RawBuffer::Wgpu(_) => Err(DeviceError::ForeignObject(buffer.label.to_string())),
    }
}

impl Backend for HostDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn allocate(&self, label: &str, bytes: u64, _usage: Usage) -> Result<RawBuffer, DeviceError> {
        let buffer = usize::try_from(bytes).ok().and_then(HostBuffer::new);
        buffer.map(RawBuffer::Host).ok_or_else(|| DeviceError::OutOfMemory {
            label: label.into(),
            bytes,
            device: self.info.name.clone(),
        })
    }

    fn write(&self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        Ok(raw(buffer)?.write(offset as usize, data)?)
    }

    fn read<'a>(&'a self, buffer: &'a Buffer, range: Range<u64>) -> BoxFuture<'a, Result<Vec<u8>, DeviceError>> {
        let read = || Ok(raw(buffer)?.read(range.start as usize..range.end as usize)?);
        Box::pin(std::future::ready(read()))
    }

    fn pipeline(&self, kernel: &'static Kernel) -> Result<RawPipeline, DeviceError> {
        let twin = twin(kernel.op).ok_or_else(|| HostError::NoTwin { op: kernel.op.into() })?;
        Ok(RawPipeline::Host(twin))
    }

    fn bind(&self, _kernel: &'static Kernel, bindings: &[BufferSlice]) -> Result<RawBindGroup, DeviceError> {
        bindings.iter().try_for_each(|slice| raw(&slice.buffer).map(|_| ()))?;
        Ok(RawBindGroup::Host(Arc::from(bindings)))
    }

    fn submit(&self, dispatches: &mut (dyn Iterator<Item = Dispatch<'_>> + Send)) -> Result<(), DeviceError> {
        self.pool.install(|| {
            for dispatch in dispatches {
                let (RawPipeline::Host(twin), RawBindGroup::Host(bindings)) = (&dispatch.pipeline.raw, &dispatch.group.raw) else {
                    return Err(DeviceError::ForeignObject(dispatch.pipeline.kernel.name.into()));
                };
                let slices = bindings
                    .iter()
                    .map(|slice| Ok((raw(&slice.buffer)?, slice.range.start as usize..slice.range.end as usize)))
                    .collect::<Result<Vec<_>, DeviceError>>()?;
                twin(&mut Args::new(dispatch.pipeline.kernel, &slices)?)?;
            }
            Ok(())
        })
    }

    fn finish(&self) -> BoxFuture<'_, Result<(), DeviceError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

//! The session: its devices, and what all of its models share.

use std::sync::Arc;

use wisp_device::Device;
use wisp_graph::extension::Extensions;
use wisp_types::Api;

use crate::{
    compiled::CompiledModule,
    debug::Debugger,
    error::SessionError,
    profiler::{GpuProfiling, Profiler},
    program_source::ProgramSource,
    times::StartTimes,
};

/// Compiles graphs and gives them weights, on one device or several.
#[derive(Clone, Debug)]
pub struct InferenceSession {
    pub(crate) devices: Arc<[Device]>,
    /// The device that graphs are compiled for and run on.
    pub(crate) device: Device,
    pub(crate) programs: Arc<ProgramSource>,
    pub(crate) profiler: Arc<Profiler>,
    pub(crate) debugger: Arc<Debugger>,
    pub(crate) extensions: Arc<Extensions>,
}

impl InferenceSession {
    /// The session, but it keeps what it compiles in a folder, and finds it there the next time:
    /// programs and, where the driver has such a thing, pipelines. To be called before anything is
    /// compiled.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn with_cache(self, cache: wisp_files::DiskCache) -> InferenceSession {
        for device in self.devices.iter() {
            device.use_cache(&cache);
        }
        let mut programs = Arc::unwrap_or_clone(self.programs);
        programs.cache = Some(cache);
        InferenceSession {
            programs: Arc::new(programs),
            ..self
        }
    }

    /// The session, but it takes graphs from what was compiled elsewhere and compiles nothing itself.
    /// To be called before anything is compiled.
    pub fn with_compiled(self, module: CompiledModule) -> InferenceSession {
        let mut programs = Arc::unwrap_or_clone(self.programs);
        programs.precompiled = Some(module);
        InferenceSession {
            programs: Arc::new(programs),
            ..self
        }
    }

    /// Everything that the session has compiled so far.
    ///
    /// # Errors
    ///
    /// If two graphs have one name.
    pub fn compiled(&self) -> Result<CompiledModule, SessionError> {
        Ok(CompiledModule::of(self.programs.compiled())?)
    }

    /// What the session has spent so far on compiling and loading.
    pub fn start_times(&self) -> StartTimes {
        self.programs.times()
    }

    /// Times nothing, each submission or each kernel of what the session's models run from now on,
    /// whatever `WISP_ENABLE_PROFILING` says; off costs nothing.
    pub fn gpu_profiling(&self, mode: GpuProfiling) {
        self.profiler.set(mode);
    }

    /// What times the session's models, and has the results.
    pub fn profiler(&self) -> &Profiler {
        &self.profiler
    }

    /// A session of devices, and of the host, whose threads start only if it runs something.
    pub(crate) fn of(
        mut devices: Vec<Device>,
        num_threads: usize,
        extensions: Extensions,
    ) -> InferenceSession {
        let is_host = |device: &Device| device.info().api == Api::Host;
        if !devices.iter().any(is_host) {
            devices.push(Device::idle_host(num_threads));
        }
        InferenceSession {
            device: devices[0].clone(),
            devices: devices.into(),
            programs: Default::default(),
            profiler: Default::default(),
            debugger: Default::default(),
            extensions: Arc::new(extensions),
        }
    }

    /// The device that the session's graphs are compiled for and run on: the first, except in what
    /// [`Self::on`] returns.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The session's devices, the host among them.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The same session, but what it compiles, loads and runs is on another of its devices.
    ///
    /// # Errors
    ///
    /// If it has no device of this index.
    pub fn on(&self, device: usize) -> Result<InferenceSession, SessionError> {
        let found = self.devices.get(device);
        let found = found.ok_or_else(|| SessionError::NoDevice {
            index: device,
            has: self
                .devices
                .iter()
                .map(|device| device.info().name.clone())
                .collect(),
        })?;
        Ok(InferenceSession {
            device: found.clone(),
            ..self.clone()
        })
    }
}

//! The session: its devices, and what all of its models share.

use std::sync::Arc;

use wisp_compiler::Tuning;
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

/// Compiles graphs and loads models, on one device or several. Clones share their state.
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
    /// Returns the session with a cache on disk for programs and, where the driver supports it, pipelines.
    /// To be called before anything is compiled.
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

    /// Returns the session with precompiled graphs; it compiles no others. To be called before anything is
    /// compiled.
    pub fn with_compiled(self, module: CompiledModule) -> InferenceSession {
        let mut programs = Arc::unwrap_or_clone(self.programs);
        programs.precompiled = Some(module);
        InferenceSession {
            programs: Arc::new(programs),
            ..self
        }
    }

    /// Returns the session with kernels that were measured to be faster on its device than the default ones;
    /// see [`Tuner`](crate::Tuner). To be called before anything is compiled.
    pub fn with_tuning(self, tuning: Tuning) -> InferenceSession {
        let mut programs = Arc::unwrap_or_clone(self.programs);
        programs.tuning = tuning;
        InferenceSession {
            programs: Arc::new(programs),
            ..self
        }
    }

    /// The kernels that the session prefers to the default ones.
    pub fn tuning(&self) -> &Tuning {
        &self.programs.tuning
    }

    /// All graphs that the session has compiled so far.
    ///
    /// # Errors
    ///
    /// If two graphs have one name.
    pub fn compiled(&self) -> Result<CompiledModule, SessionError> {
        Ok(CompiledModule::of(self.programs.compiled())?)
    }

    /// The time that the session has spent so far on compiling and loading.
    pub fn start_times(&self) -> StartTimes {
        self.programs.times()
    }

    /// Sets whether each run or each kernel of the session's models is timed from now on; overrides
    /// `WISP_ENABLE_PROFILING`. Off costs nothing.
    pub fn gpu_profiling(&self, mode: GpuProfiling) {
        self.profiler.set(mode);
    }

    /// The profiler of the session's models.
    pub fn profiler(&self) -> &Profiler {
        &self.profiler
    }

    /// A session of these devices and the host, whose threads start only when it runs something.
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

    /// The device that the session's graphs are compiled for and run on: the first one, unless
    /// [`Self::on`] chose another.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The session's devices, including the host.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The same session with another of its devices for what it compiles, loads and runs.
    ///
    /// # Errors
    ///
    /// If the session has no device of this index.
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

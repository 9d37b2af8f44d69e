//! Machine code for cards that are not there.

use wisp_files::DiskCache;
use wisp_shaders::Kernel;

use super::{compile::Job, nvrtc::Nvrtc};
use crate::{compiled::Checks, error::DeviceError};

/// NVIDIA's compiler for cards of one compute capability, without a card or a driver.
#[derive(Debug)]
pub struct OfflineCompiler {
    nvrtc: &'static Nvrtc,
    architecture: u32,
}

impl OfflineCompiler {
    /// Finds the compiler. `architecture` is a compute capability: 80 is 8.0, `sm_80`.
    ///
    /// # Errors
    ///
    /// If NVRTC is not installed, or does not compile for the architecture.
    pub fn new(architecture: u32) -> Result<OfflineCompiler, DeviceError> {
        let nvrtc = Nvrtc::get(i32::MAX, architecture).ok_or(DeviceError::NoCompiler)?;
        Ok(OfflineCompiler {
            nvrtc,
            architecture: nvrtc.target(architecture)?,
        })
    }

    /// The compiler's name and version, such as `NVRTC 13.0`. Machine code is found in a cache by the same version only.
    pub fn version(&self) -> String {
        format!("NVRTC {}", self.nvrtc.version())
    }

    /// Compiles a kernel, with the checks that kernels of compiled models from files run with, and keeps its machine code in
    /// a cache, where the device finds it. Returns false if the cache does not keep it, as one that cannot be written.
    ///
    /// # Errors
    ///
    /// If the kernel does not compile.
    pub fn compile(&self, kernel: &'static Kernel, cache: &DiskCache) -> Result<bool, DeviceError> {
        let compile = || {
            let job = Job::new(self.nvrtc, self.architecture, kernel, Checks::On)?;
            if cache.read(&job.file).is_none() {
                job.compile(Some(cache))?;
            }
            Ok(cache.read(&job.file).is_some())
        };
        compile().map_err(|message| DeviceError::Validation {
            what: kernel.name.into(),
            device: format!("sm_{}", self.architecture),
            message,
        })
    }
}

//! WGSL to machine code: naga's IR, CUDA C++, NVRTC; and machine code on disk.

use std::{
    ffi::CString,
    sync::{Arc, Mutex, PoisonError},
};

use cudarc::driver::{CudaStream, result, sys::CUmodule};
use naga::{
    proc::{BoundsCheckPolicies, BoundsCheckPolicy},
    valid::{Capabilities, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator},
};
use naga_cuda::{Options, Resources, Source, Translation, compile_in_registers};
use wisp_files::{CacheEntry, DiskCache};
use wisp_shaders::Kernel;
use wisp_types::digest;

use super::{errors::Errors, nvrtc::Nvrtc, objects::CudaKernel};
use crate::{compiled::Checks, error::DeviceError};

/// Compiles kernels for one architecture.
#[derive(Debug)]
pub(super) struct Compiler {
    nvrtc: &'static Nvrtc,
    /// The compute capability to compile for: 80 is `sm_80`.
    architecture: u32,
    errors: Errors,
    disk: Mutex<Option<DiskCache>>,
}

impl Compiler {
    pub fn new(nvrtc: &'static Nvrtc, architecture: u32, errors: &Errors) -> Compiler {
        Compiler {
            nvrtc,
            architecture,
            errors: errors.clone(),
            disk: Mutex::default(),
        }
    }

    /// Takes machine code from a cache on disk from now on, and writes what it compiles to it.
    pub fn use_cache(&self, cache: &DiskCache) {
        // Poisoning is harmless: the value is replaced whole.
        *self.disk.lock().unwrap_or_else(PoisonError::into_inner) = Some(cache.clone());
    }

    fn disk(&self) -> Option<DiskCache> {
        // Locked only for the copy, so that several threads compile at once.
        let disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        disk.clone()
    }

    /// Compiles a kernel and loads it.
    pub fn compile(
        &self,
        stream: &Arc<CudaStream>,
        kernel: &'static Kernel,
        checks: Checks,
    ) -> Result<CudaKernel, DeviceError> {
        let refused = |message| DeviceError::Validation {
            what: kernel.name.into(),
            device: self.errors.device.clone(),
            message,
        };
        let job = Job::new(self.nvrtc, self.architecture, kernel, checks).map_err(refused)?;
        let translation = &job.translation;
        let name = CString::new(translation.entry_point.as_str())
            .map_err(|error| refused(error.to_string()))?;
        let bound = stream.context().bind_to_thread();
        self.errors.check(kernel.name, bound)?;
        let module = self.module(&job)?;
        // SAFETY: the module was loaded above.
        let function = unsafe { result::module::get_function(module, name) };
        Ok(CudaKernel {
            function: self.errors.check(kernel.name, function)?,
            workgroup_size: translation.workgroup_size,
            parameters: translation.parameters.clone(),
            module,
            stream: stream.clone(),
        })
    }

    /// Loads a kernel's machine code: from the cache on disk, or compiled.
    fn module(&self, job: &Job) -> Result<CUmodule, DeviceError> {
        let disk = self.disk();
        // SAFETY: the code is what NVRTC made, in this run or in one whose file the disk cache has checked.
        let load = |code: Vec<u8>| unsafe { result::module::load_data(code.as_ptr().cast()) };
        // A driver may refuse what was compiled for another one.
        let saved = disk.as_ref().and_then(|disk| disk.read(&job.file));
        if let Some(Ok(module)) = saved.map(load) {
            return Ok(module);
        }
        let code = job.compile(disk.as_ref());
        let code = code.map_err(|message| DeviceError::Validation {
            what: job.kernel.name.into(),
            device: self.errors.device.clone(),
            message,
        })?;
        self.errors.check(job.kernel.name, load(code))
    }
}

/// A kernel to compile for an architecture.
pub(super) struct Job {
    nvrtc: &'static Nvrtc,
    kernel: &'static Kernel,
    checks: Checks,
    options: [String; 5],
    /// The kernel in CUDA C++, without launch bounds.
    translation: Translation,
    /// The name of the machine code's file in a cache: a digest of all that it depends on.
    pub file: String,
}

impl Job {
    /// Translates the kernel. Architecture 80 is `sm_80`.
    ///
    /// # Errors
    ///
    /// What CUDA C++ cannot express.
    pub fn new(
        nvrtc: &'static Nvrtc,
        architecture: u32,
        kernel: &'static Kernel,
        checks: Checks,
    ) -> Result<Job, String> {
        let options = [
            format!("--gpu-architecture=sm_{architecture}"),
            "--std=c++17".into(),
            // Kernels compute with subnormal numbers.
            "--ftz=false".into(),
            // Functions without a qualifier run on the device.
            "-default-device".into(),
            // So that it states the registers.
            "--ptxas-options=-v".into(),
        ];
        let translation = translate(kernel, checks, None)?;
        let version = nvrtc.version();
        let parts = [version.as_str(), translation.source.as_str()];
        let parts = options.iter().map(String::as_str).chain(parts);
        let file = CacheEntry::MachineCode.file_name(&digest(parts));
        Ok(Job {
            nvrtc,
            kernel,
            checks,
            options,
            translation,
            file,
        })
    }

    /// Compiles, and keeps the machine code in a cache.
    ///
    /// # Errors
    ///
    /// The compiler's messages.
    pub fn compile(&self, disk: Option<&DiskCache>) -> Result<Vec<u8>, String> {
        let name = format!("{}.cu", self.kernel.name);
        let threads = self.translation.workgroup_size.iter().product();
        let (code, _) = compile_in_registers(threads, |min_workgroups| {
            let bounded = match min_workgroups {
                Some(_) => Some(translate(self.kernel, self.checks, min_workgroups)?),
                None => None,
            };
            let source = &bounded.as_ref().unwrap_or(&self.translation).source;
            let (code, log) = self.nvrtc.compile(&name, source, &self.options)?;
            Ok::<_, String>((code, Resources::parse(&log)))
        })?;
        if let Some(disk) = disk {
            disk.write(&self.file, &code);
        }
        Ok(code)
    }
}

/// Translates a kernel to CUDA C++, with a launch bound ([`Options::min_workgroups`]).
fn translate(
    kernel: &Kernel,
    checks: Checks,
    min_workgroups: Option<u32>,
) -> Result<Translation, String> {
    let wgsl = kernel.wgsl.text();
    let module = naga::front::wgsl::parse_str(&wgsl)
        .map_err(|error| error.emit_to_string_with_path(&wgsl, kernel.name))?;
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    validator.subgroup_stages(ShaderStages::COMPUTE);
    validator.subgroup_operations(SubgroupOperationSet::all());
    let info = validator
        .validate(&module)
        .map_err(|error| error.emit_to_string_with_path(&wgsl, kernel.name))?;
    let is_checked = checks == Checks::On;
    let policy = match checks {
        Checks::On => BoundsCheckPolicy::Restrict,
        Checks::Off => BoundsCheckPolicy::Unchecked,
    };
    let options = Options {
        entry_point: Some("main"),
        overrides: wisp_shaders::CUDA_OVERRIDES,
        bounds_checks: BoundsCheckPolicies {
            index: policy,
            buffer: policy,
            ..Default::default()
        },
        bound_loops: is_checked,
        zero_workgroup_memory: is_checked,
        min_workgroups,
        source: Some(Source {
            name: kernel.name,
            text: &wgsl,
        }),
    };
    naga_cuda::translate(&module, &info, &options).map_err(|error| error.to_string())
}

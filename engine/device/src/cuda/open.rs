//! The cards of this machine, and opening them.

use std::sync::{Arc, Mutex};

use cudarc::driver::{
    CudaContext, DriverError, result,
    sys::{self, CUdevice_attribute as Attribute},
};
use wisp_types::{Api, Capabilities, DeviceInfo};

use super::{
    compile::Compiler,
    device::CudaDevice,
    errors::{Errors, message},
    graph::Graphs,
    nvrtc::Nvrtc,
    staging::Staging,
    waiter::Waiter,
};
use crate::{
    DeviceOptions, DeviceSpec, FeatureLevel, backend::Backend, compiled::Compiled,
    error::DeviceError,
};

/// What a user can do who has no such card.
pub(crate) const REMEDY: &str = "CUDA needs an NVIDIA GPU, NVIDIA's driver for CUDA 12 or newer, and the library NVRTC of the driver's CUDA version, 12 or 13, where the system finds libraries (the CUDA toolkit has it, and so have the Python packages nvidia-cuda-nvrtc-cu12, for CUDA 12, and nvidia-cuda-nvrtc, for CUDA 13; LD_LIBRARY_PATH, on Windows PATH, must name their folder).";

/// The oldest driver that Wisp works with, in CUDA's numbers: 12.0.
const OLDEST_DRIVER: i32 = 12_000;

/// The oldest compute capability that the kernels are compiled for.
const OLDEST_ARCHITECTURE: u32 = 75;

/// The limit of workgroup memory that every card has without being asked for more.
const WORKGROUP_BYTES: u32 = 48 << 10;

/// Returns the cards that CUDA's driver knows; none without a driver.
pub(crate) fn list() -> Vec<(DeviceSpec, DeviceInfo)> {
    let Ok(count) = cards() else {
        return Vec::new();
    };
    let card = |index| {
        Some((
            spec(index),
            Card::find(index).ok()?.info(DeviceOptions::default()),
        ))
    };
    (0..count).filter_map(card).collect()
}

fn spec(index: usize) -> DeviceSpec {
    let api = Api::Cuda;
    DeviceSpec::Adapter { api, index }
}

/// Why there is no card, or none that can be used.
enum Unusable {
    /// The driver is not installed, or has no card.
    Missing,
    /// The driver is older than [`OLDEST_DRIVER`].
    OldDriver(i32),
    Driver(DriverError),
}

impl From<DriverError> for Unusable {
    fn from(error: DriverError) -> Unusable {
        match error.0 {
            sys::CUresult::CUDA_ERROR_NO_DEVICE | sys::CUresult::CUDA_ERROR_INVALID_DEVICE => {
                Unusable::Missing
            }
            _ => Unusable::Driver(error),
        }
    }
}

impl Unusable {
    /// The error for a specification; `None` if there is no such card.
    fn error(self, index: usize) -> Option<DeviceError> {
        let refused = |message| DeviceError::Validation {
            what: "the device request".into(),
            device: spec(index).to_string(),
            message,
        };
        match self {
            Unusable::Missing => None,
            Unusable::OldDriver(version) => Some(refused(format!(
                "the driver is for CUDA {}, Wisp needs one for {} or newer: update NVIDIA's driver",
                cuda_version(version),
                cuda_version(OLDEST_DRIVER),
            ))),
            Unusable::Driver(error) => Some(refused(message(error))),
        }
    }
}

/// The number of cards.
fn cards() -> Result<usize, Unusable> {
    // SAFETY: NVIDIA's driver has no requirement for being loaded.
    if !unsafe { sys::is_culib_present() } {
        return Err(Unusable::Missing);
    }
    result::init()?;
    let version = driver_version()?;
    if version < OLDEST_DRIVER {
        return Err(Unusable::OldDriver(version));
    }
    Ok(usize::try_from(result::device::get_count()?).unwrap_or(0))
}

/// The version of CUDA that the driver is for, as 12080.
fn driver_version() -> Result<i32, DriverError> {
    let mut version = 0;
    // SAFETY: it points to an integer.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result()?;
    Ok(version)
}

fn cuda_version(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// What the driver says of a card without opening it.
struct Card {
    name: String,
    /// The compute capability: 80 for 8.0.
    architecture: u32,
    integrated: bool,
    memory: u64,
    max_workgroup_invocations: u32,
    driver: i32,
}

impl Card {
    fn find(index: usize) -> Result<Card, Unusable> {
        if index >= cards()? {
            return Err(Unusable::Missing);
        }
        let device = result::device::get(i32::try_from(index).map_err(|_| Unusable::Missing)?)?;
        let attribute = |attribute| {
            // SAFETY: the driver has returned the device above.
            let value = unsafe { result::device::get_attribute(device, attribute) };
            value.map(|value| u32::try_from(value).unwrap_or(0))
        };
        Ok(Card {
            name: result::device::get_name(device)?,
            architecture: 10 * attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?
                + attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            integrated: attribute(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED)? != 0,
            // SAFETY: as above.
            memory: unsafe { result::device::total_mem(device) }? as u64,
            max_workgroup_invocations: attribute(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
            )?,
            driver: driver_version()?,
        })
    }

    fn info(&self, options: DeviceOptions) -> DeviceInfo {
        DeviceInfo {
            name: self.name.clone(),
            api: Api::Cuda,
            software: false,
            integrated: self.integrated,
            driver: format!(
                "CUDA {}, compute capability {}.{}, {:.1} GiB",
                cuda_version(self.driver),
                self.architecture / 10,
                self.architecture % 10,
                self.memory as f64 / f64::from(1 << 30),
            ),
            capabilities: self.capabilities(options),
        }
    }

    /// Whether the card has tensor cores. Of those of compute capability 7.5 only the name tells: the GeForce GTX 16 series, for
    /// example, has the instructions, and computes them in its units for halves, far slower.
    fn has_tensor_cores(&self) -> bool {
        let mut words = self.name.split(|c: char| !c.is_ascii_alphanumeric());
        self.architecture >= 80
            || words.any(|word| word.starts_with("RTX") || ["T4", "T4G"].contains(&word))
    }

    fn capabilities(&self, options: DeviceOptions) -> Capabilities {
        let software_kernels = options.device_class.selects_software_kernels(false);
        let has_tensor_cores = self.has_tensor_cores();
        if options.feature_level == FeatureLevel::Baseline {
            return Capabilities {
                software_kernels,
                ..Capabilities::BASELINE
            };
        }
        Capabilities {
            // Kernels count bytes in 32 bits.
            max_binding_bytes: u64::from(u32::MAX) & !0xff,
            max_buffer_bytes: self.memory,
            max_workgroup_invocations: self.max_workgroup_invocations,
            max_workgroup_bytes: WORKGROUP_BYTES,
            max_storage_buffers: 32,
            max_workgroups: 65_535,
            subgroups: true,
            min_subgroup_size: 32,
            f16: true,
            matrix_size: match options.cooperative_matrices && has_tensor_cores {
                true => 16,
                false => 0,
            },
            mma: has_tensor_cores,
            software_kernels,
            is_host: false,
        }
    }
}

/// Opens a card; `None` if there are fewer, or no driver.
pub(crate) fn open(
    index: usize,
    options: DeviceOptions,
) -> Result<Option<Arc<dyn Backend>>, DeviceError> {
    let card = match Card::find(index) {
        Ok(card) => card,
        Err(unusable) => return unusable.error(index).map_or(Ok(None), Err),
    };
    let info = card.info(options);
    let errors = Errors {
        device: info.name.clone(),
    };
    let refused = |message: String| DeviceError::Validation {
        what: "the device request".into(),
        device: info.name.clone(),
        message,
    };
    if card.architecture < OLDEST_ARCHITECTURE {
        return Err(refused(format!(
            "it has compute capability {}.{}, Wisp needs 7.5 or newer: use it through --device vulkan",
            card.architecture / 10,
            card.architecture % 10
        )));
    }
    let nvrtc = compiler_for(&card).map_err(refused)?;
    let target = nvrtc.target(card.architecture)?;
    let opened = |result: Result<_, DriverError>| errors.check("the device request", result);
    let context = opened_context(index).map_err(|error| match error.0 {
        sys::CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => refused(
            "another process uses the card exclusively, or its compute mode forbids CUDA: see nvidia-smi -q -d COMPUTE".into(),
        ),
        _ => errors.of("the device request", 0, error),
    })?;
    let stream = opened(context.new_stream())?;
    let capture = opened(context.new_stream())?;
    Ok(Some(Arc::new(CudaDevice {
        compiler: Compiler::new(nvrtc, target, &errors),
        compiled: Compiled::default(),
        staging: Mutex::new(Staging::new(&stream)),
        readback: Arc::default(),
        waiter: Waiter::new(),
        launches_block: std::env::var_os("CUDA_LAUNCH_BLOCKING")
            .is_some_and(|value| !value.is_empty() && value != "0"),
        graphs: Mutex::new(Graphs::new(&errors, &stream, capture)),
        stream,
        errors,
        info,
    })))
}

/// Returns the compiler for a card and its driver.
///
/// # Errors
///
/// What the user can do, if there is none.
fn compiler_for(card: &Card) -> Result<&'static Nvrtc, String> {
    let major = card.driver / 1000;
    if let Some(nvrtc) = Nvrtc::get(major, card.architecture) {
        return Ok(nvrtc);
    }
    let package = match major {
        12 => "nvidia-cuda-nvrtc-cu12",
        _ => "nvidia-cuda-nvrtc",
    };
    let path = match cfg!(windows) {
        true => "PATH",
        false => "LD_LIBRARY_PATH",
    };
    let install = format!(
        "install NVRTC {major} (the CUDA toolkit has it, and so has the Python package {package}, whose folder {path} must name)"
    );
    Err(match Nvrtc::get(i32::MAX, card.architecture) {
        None => {
            format!("NVIDIA's compiler NVRTC is not where the system finds libraries: {install}")
        }
        Some(newer) => format!(
            "NVRTC {} makes code that this driver (CUDA {}) cannot load: update the driver (CUDA 13 needs 580 or newer), or {install}",
            newer.version(),
            cuda_version(card.driver),
        ),
    })
}

fn opened_context(index: usize) -> Result<Arc<CudaContext>, DriverError> {
    let context = CudaContext::new(index)?;
    // SAFETY: the backend orders everything by one stream itself.
    unsafe { context.disable_event_tracking() };
    Ok(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turing_cards_have_tensor_cores_by_their_names() {
        for (name, architecture, has) in [
            ("NVIDIA GeForce RTX 2080 Ti", 75, true),
            ("Quadro RTX 4000 with Max-Q Design", 75, true),
            ("NVIDIA TITAN RTX", 75, true),
            ("Tesla T4", 75, true),
            ("GRID T4-16Q", 75, true),
            ("GRID RTX6000-24Q", 75, true),
            ("NVIDIA T4G", 75, true),
            ("NVIDIA T400 4GB", 75, false),
            ("NVIDIA GeForce GTX 1660 Ti", 75, false),
            ("NVIDIA GeForce MX450", 75, false),
            ("NVIDIA A100-SXM4-40GB", 80, true),
        ] {
            let card = Card {
                name: name.into(),
                architecture,
                integrated: false,
                memory: 16 << 30,
                max_workgroup_invocations: 1024,
                driver: 12_080,
            };
            let capabilities = card.capabilities(DeviceOptions {
                cooperative_matrices: true,
                ..DeviceOptions::default()
            });
            assert_eq!(capabilities.mma, has, "{name}");
            assert_eq!(capabilities.matrix_size, if has { 16 } else { 0 }, "{name}");
        }
    }
}

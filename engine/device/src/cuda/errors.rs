//! What the driver's errors mean.

use cudarc::driver::{DriverError, sys::CUresult};

use crate::error::DeviceError;

/// Translates errors of a device's driver.
#[derive(Clone, Debug)]
pub(super) struct Errors {
    /// The device's name.
    pub device: String,
}

impl Errors {
    /// Describes a failure to do something; `bytes` is the size of what was being allocated, if anything was.
    pub fn of(&self, what: &str, bytes: u64, error: DriverError) -> DeviceError {
        let (device, message) = (self.device.clone(), message(error));
        match error.0 {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => DeviceError::OutOfMemory {
                label: what.into(),
                bytes,
                device,
            },
            code if is_sticky(code) => DeviceError::Lost {
                device,
                message: format!(
                    "{message}, noticed at {what}; the environment variable CUDA_LAUNCH_BLOCKING=1 makes the driver name the kernel, and CUDA works again after a restart of the program"
                ),
            },
            _ => DeviceError::Validation {
                what: what.into(),
                device,
                message,
            },
        }
    }

    /// Translates the error of a call that allocates nothing.
    pub fn check<T>(&self, what: &str, result: Result<T, DriverError>) -> Result<T, DeviceError> {
        result.map_err(|error| self.of(what, 0, error))
    }
}

/// The driver's words for an error, such as `an illegal memory access was encountered`.
pub(super) fn message(error: DriverError) -> String {
    match error.error_string() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => format!("error {}", error.0 as u32),
    }
}

/// True for the errors after which every call of the context fails.
fn is_sticky(code: CUresult) -> bool {
    matches!(
        code,
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
            | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
            | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUresult::CUDA_ERROR_INVALID_PC
            | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUresult::CUDA_ERROR_LAUNCH_FAILED
            | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
            | CUresult::CUDA_ERROR_ASSERT
            | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
            | CUresult::CUDA_ERROR_CONTAINED
            | CUresult::CUDA_ERROR_TENSOR_MEMORY_LEAK
            | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUresult::CUDA_ERROR_DEINITIALIZED
            | CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE
            | CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUresult::CUDA_ERROR_EXTERNAL_DEVICE
            | CUresult::CUDA_ERROR_MPS_CLIENT_TERMINATED
            | CUresult::CUDA_ERROR_UNKNOWN
    )
}

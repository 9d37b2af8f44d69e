//! Launching kernels.

use std::ffi::c_void;

use cudarc::driver::{CudaStream, result, sys::CUdeviceptr};
use naga_cuda::Parameter;

use super::{
    errors::Errors,
    objects::{Bound, CudaBindGroup, CudaKernel},
};
use crate::{error::DeviceError, pipeline::Dispatch};

/// The value of a kernel's parameter, which outlives the launch that points at it.
enum Argument {
    Address(CUdeviceptr),
    Bytes(u32),
}

impl Argument {
    fn of(parameter: &Parameter, bindings: &[Bound]) -> Option<Argument> {
        let bound = |binding: u32| bindings.get(binding as usize);
        Some(match parameter {
            Parameter::Pointer { binding, .. } => Argument::Address(bound(*binding)?.address),
            Parameter::Bytes { binding, .. } => Argument::Bytes(bound(*binding)?.bytes),
        })
    }

    fn as_ptr(&self) -> *mut c_void {
        match self {
            Argument::Address(value) => std::ptr::from_ref(value).cast_mut().cast(),
            Argument::Bytes(value) => std::ptr::from_ref(value).cast_mut().cast(),
        }
    }
}

/// Launches dispatches on a stream, in order.
pub(super) fn launch_all<'a>(
    errors: &Errors,
    stream: &CudaStream,
    dispatches: impl IntoIterator<Item = &'a Dispatch>,
) -> Result<(), DeviceError> {
    dispatches
        .into_iter()
        .try_for_each(|dispatch| launch(errors, stream, dispatch))
}

/// Checks that no binding is shorter than its type: the checks of indices in a kernel rely on it.
pub(super) fn check_sizes(
    name: &str,
    kernel: &CudaKernel,
    group: &CudaBindGroup,
) -> Result<(), DeviceError> {
    for parameter in &kernel.parameters {
        let Parameter::Pointer {
            binding, min_bytes, ..
        } = *parameter
        else {
            continue;
        };
        let mut bound = group.bindings.iter().zip(&group.buffers);
        if let Some((Bound { bytes, .. }, buffer)) = bound.nth(binding as usize)
            && *bytes < min_bytes
        {
            return Err(DeviceError::BindingTooSmall {
                kernel: name.into(),
                binding,
                label: buffer.label.to_string(),
                bytes: *bytes,
                min_bytes,
            });
        }
    }
    Ok(())
}

fn launch(errors: &Errors, stream: &CudaStream, dispatch: &Dispatch) -> Result<(), DeviceError> {
    if dispatch.workgroups().contains(&0) {
        return Ok(());
    }
    let name = dispatch.kernel().name;
    let kernel: &std::sync::Arc<CudaKernel> = dispatch.pipeline.object.get(name)?;
    let group: &CudaBindGroup = dispatch.group.object.get(name)?;
    let arguments: Option<Vec<Argument>> = kernel
        .parameters
        .iter()
        .map(|parameter| Argument::of(parameter, &group.bindings))
        .collect();
    let arguments = arguments.ok_or_else(|| DeviceError::BindingCount {
        kernel: name.into(),
        expected: kernel.parameters.len(),
        given: group.bindings.len(),
    })?;
    let mut pointers: Vec<*mut c_void> = arguments.iter().map(Argument::as_ptr).collect();
    let [[x, y, z], [width, height, depth]] = [dispatch.workgroups(), kernel.workgroup_size];
    // SAFETY: the arguments are those that the kernel was translated with, and the driver copies them before it
    // returns. The bind group keeps their memory, which is freed in the order of the stream. That the kernel
    // keeps to its memory is what its checks see to, or what the caller of `unchecked_pipeline` promised.
    errors.check(name, unsafe {
        result::launch_kernel(
            kernel.function,
            (x, y, z),
            (width, height, depth),
            0,
            stream.cu_stream(),
            &mut pointers,
        )
    })
}

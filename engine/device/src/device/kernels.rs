//! Kernels of a device: compiling them and binding memory to them.

#[cfg(not(target_arch = "wasm32"))]
use wisp_files::DiskCache;
use wisp_host::Twin;
use wisp_shaders::{Access, Kernel};
use wisp_types::BINDING_ALIGNMENT;

use super::Device;
use crate::{BindGroup, BufferSlice, DeviceError, Pipeline, Usage, buffer::WORD};

impl Device {
    /// Compiles a kernel, or returns it from the device's cache. Whatever its parameters and the memory
    /// bound to it hold, the kernel accesses no other memory and comes to an end.
    ///
    /// # Errors
    ///
    /// If the device's compiler rejects the kernel, or the host has no twin of it.
    pub fn pipeline(&self, kernel: &'static Kernel) -> Result<Pipeline, DeviceError> {
        Ok(Pipeline {
            kernel,
            device: self.id,
            object: self.backend.pipeline(kernel)?,
        })
    }

    /// Compiles a kernel as [`Self::pipeline`] does, but without checks of bounds and loops where
    /// the device has none of its own, which is faster on GPUs. Kernels that are not built into Wisp
    /// keep their checks.
    ///
    /// # Errors
    ///
    /// As [`Self::pipeline`].
    ///
    /// # Safety
    ///
    /// Whenever a dispatch of the returned pipeline, or of a clone of it, executes, these must hold:
    ///
    /// - The first binding, the kernel's parameters, holds sizes and offsets for which every tensor of the
    ///   kernel lies within the memory that is bound for it.
    /// - The workgroups cover the grid that these parameters describe, and not more than the last
    ///   workgroups of it.
    ///
    /// The contents of the other bindings need not be trusted: kernels clamp what they read there before
    /// they use it as an index.
    pub unsafe fn unchecked_pipeline(
        &self,
        kernel: &'static Kernel,
    ) -> Result<Pipeline, DeviceError> {
        let built_in = wisp_shaders::kernels().as_ptr_range();
        if !built_in.contains(&std::ptr::from_ref(kernel)) {
            return self.pipeline(kernel);
        }
        Ok(Pipeline {
            kernel,
            device: self.id,
            // SAFETY: the kernel is built in; the caller promises the rest.
            object: unsafe { self.backend.unchecked_pipeline(kernel)? },
        })
    }

    /// Returns a pipeline that runs a caller's twin under a kernel's name, on the host; `None` on other
    /// devices.
    pub fn twin_pipeline(&self, kernel: &'static Kernel, twin: Twin) -> Option<Pipeline> {
        Some(Pipeline {
            kernel,
            device: self.id,
            object: self.backend.twin_pipeline(twin)?,
        })
    }

    /// Uses a cache on disk for compiled pipelines, where the driver can save them;
    /// [`Self::save_cache`] writes it.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn use_cache(&self, cache: &DiskCache) {
        self.backend.use_cache(cache);
    }

    /// Saves the pipelines that were compiled since to the cache in use, if there is one.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn save_cache(&self) {
        self.backend.save_cache();
    }

    /// Binds memory to a kernel, and to every other kernel with the same kinds of bindings. Binding 0 is
    /// the kernel's parameters.
    ///
    /// # Errors
    ///
    /// If there are not as many slices as the kernel has bindings, or if one is another device's, outside
    /// its buffer, empty, not aligned to 256 bytes at its start and 4 at its end, larger than one binding
    /// may be, or of a buffer for another use. GPUs also refuse memory that is bound both for reading and for writing
    /// and, when a kernel runs, a binding that is shorter than its type; here, when a dispatch is made of the kernel, or
    /// when it is recorded or submitted.
    pub fn bind(
        &self,
        kernel: &'static Kernel,
        bindings: &[BufferSlice],
    ) -> Result<BindGroup, DeviceError> {
        if bindings.len() != kernel.bindings.len() {
            return Err(DeviceError::BindingCount {
                kernel: kernel.name.into(),
                expected: kernel.bindings.len(),
                given: bindings.len(),
            });
        }
        for (number, slice) in bindings.iter().enumerate() {
            self.check_binding(kernel, number, slice)?;
        }
        Ok(BindGroup {
            kernel,
            device: self.id,
            object: self.backend.bind(kernel, bindings)?,
        })
    }

    fn check_binding(
        &self,
        kernel: &'static Kernel,
        number: usize,
        slice: &BufferSlice,
    ) -> Result<(), DeviceError> {
        let BufferSlice { buffer, range } = slice;
        self.check_owns(buffer)?;
        buffer.check_range(range)?;
        if range.is_empty() {
            return Err(DeviceError::EmptyBinding {
                kernel: kernel.name.into(),
                label: buffer.label.to_string(),
            });
        }
        if !range.start.is_multiple_of(BINDING_ALIGNMENT) {
            return Err(buffer.misaligned(range, BINDING_ALIGNMENT));
        }
        if !range.end.is_multiple_of(WORD) {
            return Err(buffer.misaligned(range, WORD));
        }
        let (usage, expected) = match kernel.bindings[number] {
            Access::Uniform => (Usage::Uniform, "uniform"),
            Access::Read | Access::Write => (Usage::Storage, "storage"),
        };
        if buffer.usage != usage {
            return Err(DeviceError::WrongUsage {
                kernel: kernel.name.into(),
                binding: number,
                expected,
                label: buffer.label.to_string(),
            });
        }
        let info = self.info();
        let limit = info.capabilities.max_binding_bytes;
        if slice.bytes() > limit {
            return Err(DeviceError::BindingTooLarge {
                kernel: kernel.name.into(),
                label: buffer.label.to_string(),
                bytes: slice.bytes(),
                device: info.name.clone(),
                limit,
            });
        }
        Ok(())
    }
}

//! Kernels, compiled for a device, and the layouts of their bindings.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use wisp_shaders::{Access, Kernel};

#[cfg(not(target_arch = "wasm32"))]
use super::driver_cache::DriverCache;
use crate::compiled::{Checks, Compiled};

/// The kernels that were compiled for a device.
#[derive(Debug)]
pub(super) struct Pipelines {
    device: wgpu::Device,
    compiled: Compiled<wgpu::ComputePipeline>,
    layouts: Mutex<HashMap<&'static [Access], wgpu::BindGroupLayout>>,
    #[cfg(not(target_arch = "wasm32"))]
    pub driver_cache: DriverCache,
}

impl Pipelines {
    pub fn new(
        device: &wgpu::Device,
        adapter: &wgpu::AdapterInfo,
        features: wgpu::Features,
    ) -> Pipelines {
        #[cfg(target_arch = "wasm32")]
        let _ = (adapter, features);
        Pipelines {
            device: device.clone(),
            compiled: Compiled::default(),
            layouts: Mutex::default(),
            #[cfg(not(target_arch = "wasm32"))]
            driver_cache: DriverCache::new(adapter, features),
        }
    }

    /// Returns a pipeline that was compiled before.
    pub fn find(&self, kernel: &'static Kernel, checks: Checks) -> Option<wgpu::ComputePipeline> {
        self.compiled.find(kernel, checks)
    }

    /// Keeps a pipeline for [`Self::find`]; returns the one that is there already, if another thread was
    /// faster.
    pub fn keep(
        &self,
        kernel: &'static Kernel,
        checks: Checks,
        pipeline: wgpu::ComputePipeline,
    ) -> wgpu::ComputePipeline {
        #[cfg(not(target_arch = "wasm32"))]
        self.driver_cache.set_changed();
        self.compiled.keep(kernel, checks, pipeline)
    }

    /// Compiles a kernel. In a browser this returns at once, and its GPU process compiles one kernel after
    /// the other; wgpu has no `createComputePipelineAsync`. Wisp's package puts it behind this call.
    ///
    /// # Safety
    ///
    /// With [`Checks::Off`], as [`Device::unchecked_pipeline`](crate::Device::unchecked_pipeline).
    pub unsafe fn compile(&self, kernel: &'static Kernel, checks: Checks) -> wgpu::ComputePipeline {
        // SAFETY: the caller promises it.
        let module = unsafe { self.module(kernel, checks) };
        #[cfg(not(target_arch = "wasm32"))]
        let cache = self.driver_cache.get();
        #[cfg(target_arch = "wasm32")]
        let cache: Option<wgpu::PipelineCache> = None;
        let layout = self
            .device
            .create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: Some(kernel.op),
                bind_group_layouts: &[Some(&self.layout(kernel))],
                immediate_size: 0,
            });
        self.device
            .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(kernel.name),
                layout: Some(&layout),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    zero_initialize_workgroup_memory: checks == Checks::On,
                    ..Default::default()
                },
                cache: cache.as_ref(),
            })
    }

    /// # Safety
    ///
    /// As [`Self::compile`].
    unsafe fn module(&self, kernel: &'static Kernel, checks: Checks) -> wgpu::ShaderModule {
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some(kernel.name),
            source: wgpu::ShaderSource::Wgsl(source(kernel)),
        };
        match checks {
            Checks::On => self.device.create_shader_module(descriptor),
            // SAFETY: the kernel is built in: naga validated it when wisp-shaders was built, its loops are
            // bounded by its parameters, it clamps indices that it reads from memory, and tests run it
            // over odd sizes against its host twin. Its parameters fit its memory, as the caller promises.
            Checks::Off => unsafe {
                self.device.create_shader_module_trusted(
                    descriptor,
                    wgpu::ShaderRuntimeChecks::unchecked(),
                )
            },
        }
    }

    /// Returns the layout of a kernel's bindings: one for all kernels with the same kinds of bindings.
    pub fn layout(&self, kernel: &'static Kernel) -> wgpu::BindGroupLayout {
        // Poisoning is harmless: entries are inserted whole.
        let mut layouts = self.layouts.lock().unwrap_or_else(PoisonError::into_inner);
        let layout = layouts.entry(kernel.bindings).or_insert_with(|| {
            let entry = |(binding, access): (usize, &Access)| wgpu::BindGroupLayoutEntry {
                binding: binding as u32,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: match access {
                        Access::Uniform => wgpu::BufferBindingType::Uniform,
                        Access::Read => wgpu::BufferBindingType::Storage { read_only: true },
                        Access::Write => wgpu::BufferBindingType::Storage { read_only: false },
                    },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            };
            let entries: Vec<_> = kernel.bindings.iter().enumerate().map(entry).collect();
            self.device
                .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                    label: Some(kernel.op),
                    entries: &entries,
                })
        });
        layout.clone()
    }
}

/// Returns a kernel's source. Browsers require a directive for subgroups, which naga does not know.
fn source(kernel: &'static Kernel) -> Cow<'static, str> {
    let wgsl = kernel.wgsl.text();
    match kernel.needs.subgroups && cfg!(target_arch = "wasm32") {
        true => format!("enable subgroups;\n{wgsl}").into(),
        false => wgsl,
    }
}

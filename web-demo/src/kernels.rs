//! Runs single kernels on the browser's GPU or the CPU, for tests with the cases of the native tests.

use js_sys::{Array, Uint8Array};
use wasm_bindgen::prelude::*;
use wisp_engine::{
    device::{Api, Buffer, Device, DeviceError, DeviceOptions, Dispatch, Usage},
    extension::Extensions,
    graph::{DType, Graph, Shape},
    session::{DebugConfig, Dims, InferenceSession, InitOptions, Model, Tensor},
    weights::MemoryWeights,
};
use wisp_shaders::{Access, Kernel};

use crate::{
    error::Failure,
    options::{Place, feature_level},
};

/// A device that runs kernels by name.
#[wasm_bindgen]
pub struct Kernels {
    device: Device,
}

fn kernel(name: &str) -> Result<&'static Kernel, Failure> {
    wisp_shaders::kernel(name).ok_or_else(|| Failure::request(format!("no kernel {name}")))
}

impl Kernels {
    fn buffers(&self, memory: &Array) -> Result<Vec<Buffer>, DeviceError> {
        let mut buffers = Vec::new();
        for bytes in memory.iter() {
            let mut bytes = Uint8Array::new(&bytes).to_vec();
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            let usage = match buffers.len() {
                0 => Usage::Uniform,
                _ => Usage::Storage,
            };
            let buffer = self.device.allocate("memory", bytes.len() as u64, usage)?;
            self.device.write(&buffer, 0, &bytes)?;
            buffers.push(buffer);
        }
        Ok(buffers)
    }

    async fn outputs(
        &self,
        kernel: &'static Kernel,
        memory: &Array,
        workgroups: [u32; 3],
        dispatches: usize,
    ) -> Result<Array, DeviceError> {
        let buffers = self.buffers(memory)?;
        let mut slices: Vec<_> = buffers.iter().map(Buffer::whole).collect();
        if let (Some(slice), Some(buffer)) = (slices.first_mut(), buffers.first()) {
            // Parameters are bound with their exact size, though the allocation is rounded up.
            let bytes = Uint8Array::new(&memory.get(0)).length();
            *slice = buffer.slice(0..u64::from(bytes));
        }
        // SAFETY: the browser checks every memory access.
        let pipeline = unsafe { self.device.unchecked_pipeline(kernel)? };
        let group = self.device.bind(kernel, &slices)?;
        let dispatch = Dispatch::new(&self.device, &pipeline, &group, workgroups)?;
        self.device.record(&vec![dispatch; dispatches])?;
        let out = Array::new();
        for (buffer, access) in buffers.iter().zip(kernel.bindings).skip(1) {
            let bytes = match access {
                Access::Write => self.device.read(buffer, 0..buffer.bytes()).await?,
                _ => Vec::new(),
            };
            out.push(&Uint8Array::from(bytes.as_slice()));
        }
        self.device.finish().await?;
        Ok(out)
    }
}

#[wasm_bindgen]
impl Kernels {
    /// Opens the browser's GPU, or the CPU.
    ///
    /// # Errors
    ///
    /// If the browser has no WebGPU device.
    pub async fn open(cpu: bool, baseline: bool) -> Result<Kernels, JsValue> {
        let place = match cpu {
            true => Place::Cpu,
            false => Place::WebGpu,
        };
        let device_options = DeviceOptions {
            feature_level: feature_level(baseline),
            ..DeviceOptions::default()
        };
        let device = Device::open(&place.spec(), device_options).await;
        Ok(Kernels {
            device: device.map_err(Failure::from)?,
        })
    }

    /// Returns why the device cannot run a kernel, or `None` if it can.
    ///
    /// # Errors
    ///
    /// If no kernel has this name.
    pub fn unmet(&self, name: &str) -> Result<Option<String>, JsValue> {
        let needs = kernel(name)?.needs;
        let has = &self.device.info().capabilities;
        let unmet = match () {
            // The twin of a kernel needs nothing.
            () if self.device.info().api == Api::Host => None,
            () if needs.subgroups && !has.subgroups => Some("subgroups"),
            () if needs.f16 && !has.f16 => Some("f16"),
            () if needs.min_subgroup_size > has.min_subgroup_size => Some("subgroup size"),
            () => None,
        };
        Ok(unmet.map(String::from))
    }

    /// Compiles a kernel as a check.
    ///
    /// # Errors
    ///
    /// If the browser refuses the kernel.
    pub async fn compile(&self, name: &str) -> Result<(), JsValue> {
        // SAFETY: the pipeline is never dispatched.
        let compiled = unsafe { self.device.unchecked_pipeline(kernel(name)?) };
        compiled.map_err(Failure::from)?;
        self.device.finish().await.map_err(Failure::from)?;
        Ok(())
    }

    /// Runs a kernel. `memory` has the parameters and then the other bindings. Returns the contents of each
    /// binding from 1 on after the run, empty for those that are only read.
    ///
    /// # Errors
    ///
    /// If the device refuses the kernel or its memory.
    pub async fn run(
        &self,
        name: &str,
        memory: Array,
        workgroups: Vec<u32>,
        dispatches: usize,
    ) -> Result<Array, JsValue> {
        let kernel = kernel(name)?;
        let workgroups = <[u32; 3]>::try_from(workgroups)
            .map_err(|_| Failure::request("workgroups have three dimensions"))?;
        let outputs = self.outputs(kernel, &memory, workgroups, dispatches).await;
        Ok(outputs.map_err(Failure::from)?)
    }

    /// Loads a custom op with one input of this shape. `debug` has debugging settings in the syntax of
    /// `WISP_DEBUG`, or is empty.
    ///
    /// # Errors
    ///
    /// If the declaration or the kernel is invalid, or the device refuses the kernel.
    pub async fn custom(
        &self,
        op: &str,
        declaration: &str,
        source: &str,
        shape: Vec<u32>,
        debug: &str,
    ) -> Result<CustomOp, JsValue> {
        let told = |error: &dyn std::fmt::Display| Failure::request(error.to_string());
        let extensions = Extensions::from_source(declaration, source).map_err(|e| told(&e))?;
        let shape: Vec<u64> = shape.into_iter().map(u64::from).collect();
        let mut graph = Graph::new("custom");
        graph.use_extensions(&extensions).map_err(|e| told(&e))?;
        let dims = shape.iter().map(|size| (*size).into()).collect();
        let input = graph.input("input", DType::F32, Shape(dims));
        let outputs = graph.custom(op, &[input], &[]).map_err(|e| told(&e))?;
        for output in outputs {
            graph.output("output", output);
        }
        let session = InferenceSession::new(self.device.clone());
        session.set_debug_config(debug.parse::<DebugConfig>().map_err(|e| told(&e))?);
        let weights = MemoryWeights::default();
        let model = session.load(&graph, &weights, InitOptions::default());
        let model = model.await.map_err(|e| told(&e))?;
        Ok(CustomOp { model, shape })
    }
}

/// A custom op on the browser's device.
#[wasm_bindgen]
pub struct CustomOp {
    model: Model,
    shape: Vec<u64>,
}

#[wasm_bindgen]
impl CustomOp {
    /// Runs the op on an input and returns its output.
    ///
    /// # Errors
    ///
    /// If the number of elements does not match the shape, or the device fails.
    pub async fn run(&self, input: Vec<f32>) -> Result<Vec<f32>, JsValue> {
        let input = Tensor::f32(&self.shape, &input);
        let input = input.ok_or_else(|| Failure::request("as many numbers as the shape has"))?;
        let outputs = self.model.execute(&[&input]).await;
        let outputs = outputs.map_err(|error| Failure::request(error.to_string()))?;
        let first = outputs.first().and_then(Tensor::as_f32);
        Ok(first.unwrap_or_default().to_vec())
    }

    /// Submits the op again without waiting.
    ///
    /// # Errors
    ///
    /// If debugging is enabled, because it must wait for results.
    pub fn submit(&self) -> Result<(), JsValue> {
        let run = self.model.run(&Dims::default());
        run.map_err(|error| Failure::request(error.to_string()))?;
        Ok(self.model.device().submit().map_err(Failure::from)?)
    }
}

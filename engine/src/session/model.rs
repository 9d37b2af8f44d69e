//! A model: a program bound to weights, memory and pipelines, ready to run.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use wisp_shaders::Kernel;

use super::{
    CompiledModel, GpuProfiling, InferenceSession, InitOptions, LogLevel, Profiler, SessionError,
    Work,
    debug::Debugger,
    load::{self, DeviceMatrix, DeviceWeights, Progress},
};
use crate::{
    compiler::{Call, PARAMS_STRIDE, Place, Port, Program, Size, Word},
    device::{BindGroup, Buffer, BufferSlice, Device, Dispatch, Pipeline, Usage},
    extension::expression::ValueError,
    weights::WeightSource,
};

/// A kernel call with its pipelines and memory.
#[derive(Debug)]
struct BoundCall {
    /// With the largest second grid dimension each is meant for, and its tile.
    pipelines: Vec<(Pipeline, u32, [u32; 2])>,
    group: BindGroup,
    call: Call,
}

/// The sizes of a program's symbolic dimensions in one run, in the program's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dims(pub(super) Vec<u64>);

/// A program on a device: nothing is allocated, compiled or bound any more when it runs.
#[derive(Debug)]
pub struct Model {
    device: Device,
    profiler: Arc<Profiler>,
    pub(super) debugger: Arc<Debugger>,
    program: Program,
    max_dims: Vec<u64>,
    inputs: Vec<Buffer>,
    slots: Vec<Buffer>,
    vectors: Vec<Buffer>,
    constants: Vec<Buffer>,
    /// Kept so that the device's ledger counts them as long as they are bound.
    _matrices: Vec<DeviceMatrix>,
    calls: Vec<BoundCall>,
    params: Buffer,
    /// The dimensions that `params` is written for.
    written: Mutex<Option<Dims>>,
}

/// Compiles what the program needs, several kernels at a time where there are threads; returns how
/// many there are.
pub(super) fn compile_kernels(
    session: &InferenceSession,
    compiled: &CompiledModel,
) -> Result<u32, SessionError> {
    let (program, info) = (compiled.program(), session.device.info());
    let missing = program.lacks(&info.capabilities);
    if !missing.is_empty() {
        return Err(SessionError::Target {
            graph: program.name.clone(),
            device: info.name.clone(),
            missing,
        });
    }
    let kernels: Vec<&'static Kernel> = program.kernels().collect();
    let count = kernels.len() as u32;
    let compile = |kernel: &'static Kernel| -> Result<(), SessionError> {
        let debugger = &session.debugger;
        debugger.log(LogLevel::Debug, || {
            format!("{}: a pipeline for {}", info.name, kernel.name)
        });
        session.pipeline(kernel, compiled.is_trusted()).map(|_| ())
    };
    #[cfg(not(target_arch = "wasm32"))]
    {
        use rayon::prelude::*;
        kernels.into_par_iter().try_for_each(compile)?;
    }
    #[cfg(target_arch = "wasm32")]
    {
        kernels.into_iter().try_for_each(compile)?;
    }
    Ok(count)
}

/// The parts that calls are bound to.
struct Memory<'a> {
    inputs: &'a [Buffer],
    slots: &'a [Buffer],
    matrices: &'a [DeviceMatrix],
    vectors: &'a [Buffer],
    constants: &'a [Buffer],
    params: &'a Buffer,
}

impl Memory<'_> {
    fn slice(&self, place: Place) -> BufferSlice {
        match place {
            Place::Input(i) => self.inputs[i as usize].whole(),
            Place::Slot(i) => self.slots[i as usize].whole(),
            Place::Matrix(i, plane) => self.matrices[i as usize].plane(plane),
            Place::Vector(i) => self.vectors[i as usize].whole(),
            Place::Constant(i) => self.constants[i as usize].whole(),
        }
    }

    fn bind(
        &self,
        session: &InferenceSession,
        compiled: &CompiledModel,
        index: usize,
        call: &Call,
    ) -> Result<BoundCall, SessionError> {
        let offset = index as u64 * PARAMS_STRIDE;
        let bytes = call.params.len() as u64 * 4;
        let mut bindings = vec![self.params.slice(offset..offset + bytes)];
        bindings.extend(call.bindings.iter().map(|place| self.slice(*place)));
        let mut pipelines = Vec::with_capacity(call.kernels.len());
        let mut group = None;
        for (name, max_rows_y) in &call.kernels {
            let kernel = compiled.program().kernel(name);
            let kernel = kernel.ok_or_else(|| SessionError::UnknownKernel(name.clone()))?;
            pipelines.push((
                session.pipeline(kernel, compiled.is_trusted())?,
                *max_rows_y,
                kernel.tile,
            ));
            if group.is_none() {
                group = Some(session.device.bind(kernel, &bindings)?);
            }
        }
        let group = group.ok_or_else(|| SessionError::UnknownKernel(call.label.clone()))?;
        Ok(BoundCall {
            pipelines,
            group,
            call: call.clone(),
        })
    }
}

impl Model {
    pub(super) async fn new(
        session: &InferenceSession,
        compiled: &CompiledModel,
        weights: &dyn WeightSource,
        options: &InitOptions<'_>,
        loaded: &mut DeviceWeights,
    ) -> Result<Model, SessionError> {
        let device = &session.device;
        let program = compiled.program().clone();
        let max_dims = program.sizes(|name| options.max_dims.get(name).copied());
        let max_dims = max_dims.map_err(|name| SessionError::Dimension {
            name: name.into(),
            size: None,
            most: u64::MAX,
        })?;
        let total = load::check(&program, weights, loaded)?;

        let mut progress = Progress {
            done: 0,
            total,
            tell: options.progress,
        };
        let bytes = |size: &Size| {
            size.eval(&max_dims)
                .and_then(|elements| elements.checked_mul(4))
                .unwrap_or(u64::MAX)
        };
        let inputs = program
            .inputs
            .iter()
            .map(|port| memory(device, port, bytes(&port.elements), options))
            .collect::<Result<Vec<_>, _>>()?;
        let mut slots = Vec::with_capacity(program.slots.len());
        for sizes in &program.slots {
            let bytes = sizes.iter().map(bytes).max().unwrap_or(0);
            slots.push(device.allocate("an intermediate result", bytes, Usage::Storage)?);
        }
        let mut matrices = Vec::with_capacity(program.matrices.len());
        for matrix in &program.matrices {
            matrices.push(load::matrix(device, matrix, weights, &mut progress, loaded).await?);
        }
        let mut vectors = Vec::with_capacity(program.vectors.len());
        for vector in &program.vectors {
            vectors.push(load::vector(device, vector, weights, &mut progress, loaded).await?);
        }
        let mut constants = Vec::with_capacity(program.constants.len());
        for words in &program.constants {
            let buffer = device.allocate("a constant", words.len() as u64 * 4, Usage::Storage)?;
            device.write(&buffer, 0, bytemuck::cast_slice(words))?;
            constants.push(buffer);
        }
        let params = device.allocate(
            "parameters",
            program.calls.len() as u64 * PARAMS_STRIDE,
            Usage::Uniform,
        )?;
        let memory = Memory {
            inputs: &inputs,
            slots: &slots,
            matrices: &matrices,
            vectors: &vectors,
            constants: &constants,
            params: &params,
        };
        let calls = program
            .calls
            .iter()
            .enumerate()
            .map(|(i, call)| memory.bind(session, compiled, i, call))
            .collect::<Result<_, _>>()?;
        device.finish().await?;
        Ok(Model {
            device: device.clone(),
            profiler: session.profiler.clone(),
            debugger: session.debugger.clone(),
            program,
            max_dims,
            inputs,
            slots,
            vectors,
            constants,
            _matrices: matrices,
            calls,
            params,
            written: Mutex::new(None),
        })
    }

    /// The model's device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What times the model, if its session is told to.
    pub fn profiler(&self) -> &Profiler {
        &self.profiler
    }

    /// The program that the model runs.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The largest size of each symbolic dimension.
    pub fn max_dims(&self) -> HashMap<&str, u64> {
        self.program
            .dims
            .iter()
            .map(String::as_str)
            .zip(self.max_dims.iter().copied())
            .collect()
    }

    /// Kernel calls in one run.
    pub fn dispatches_per_run(&self) -> usize {
        self.calls.len()
    }

    /// Checks the sizes of the symbolic dimensions for a run.
    ///
    /// # Errors
    ///
    /// If one is missing or larger than the model was made for, or a slice would be outside what it is
    /// of.
    pub fn dims(&self, sizes: &[(&str, u64)]) -> Result<Dims, SessionError> {
        let size_of = |name: &str| {
            sizes
                .iter()
                .find(|(other, _)| *other == name)
                .map(|(_, size)| *size)
        };
        let dims = self.program.sizes(size_of);
        let dims = dims.map_err(|name| self.wrong_dimension(name, None))?;
        let all = self.program.dims.iter().zip(&dims).zip(&self.max_dims);
        for ((name, size), most) in all {
            if size > most {
                return Err(self.wrong_dimension(name, Some(*size)));
            }
        }
        for bound in &self.program.bounds {
            let [needed, available] = [&bound.needed, &bound.available].map(|sum| sum.eval(&dims));
            if needed.is_none_or(|needed| available.is_some_and(|available| needed > available)) {
                return Err(SessionError::Bound {
                    model: self.program.name.clone(),
                    label: bound.label.clone(),
                    needed: needed.unwrap_or(u64::MAX),
                    available: available.unwrap_or(u64::MAX),
                });
            }
        }
        Ok(Dims(dims))
    }

    fn wrong_dimension(&self, name: &str, size: Option<u64>) -> SessionError {
        let at = self.program.dims.iter().position(|dim| dim == name);
        SessionError::Dimension {
            name: name.into(),
            size,
            most: at.map_or(u64::MAX, |at| self.max_dims[at]),
        }
    }

    fn port<'a>(
        &self,
        what: &'static str,
        ports: &'a [Port],
        name: &str,
    ) -> Result<&'a Port, SessionError> {
        ports
            .iter()
            .find(|port| port.name == name)
            .ok_or_else(|| SessionError::UnknownPort {
                model: self.program.name.clone(),
                what,
                name: name.into(),
                has: ports.iter().map(|port| port.name.clone()).collect(),
            })
    }

    pub(super) fn place(&self, place: Place) -> Option<&Buffer> {
        match place {
            Place::Input(i) => self.inputs.get(i as usize),
            Place::Slot(i) => self.slots.get(i as usize),
            Place::Vector(i) => self.vectors.get(i as usize),
            Place::Constant(i) => self.constants.get(i as usize),
            Place::Matrix(..) => None,
        }
    }

    /// The device memory of an input, buffer or output, to share with another model or to read.
    ///
    /// # Errors
    ///
    /// If there is none of that name.
    pub fn buffer(&self, name: &str) -> Result<&Buffer, SessionError> {
        let port = match self.port("input", &self.program.inputs, name) {
            Ok(port) => port,
            Err(_) => self.port("input, buffer or output", &self.program.outputs, name)?,
        };
        self.place(port.place)
            .ok_or_else(|| SessionError::UnknownPort {
                model: self.program.name.clone(),
                what: "output in plain memory",
                name: name.into(),
                has: Vec::new(),
            })
    }

    /// Writes an input or buffer, from its start, before whatever runs next.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or it is smaller than `data`.
    pub fn write<T: bytemuck::NoUninit>(&self, name: &str, data: &[T]) -> Result<(), SessionError> {
        self.write_at(name, 0, data)
    }

    /// Writes part of an input or buffer, `start` elements of `T` from its start.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or the part is outside it.
    pub fn write_at<T: bytemuck::NoUninit>(
        &self,
        name: &str,
        start: u64,
        data: &[T],
    ) -> Result<(), SessionError> {
        let port = self.port("input", &self.program.inputs, name)?;
        if let (Some(buffer), false) = (self.place(port.place), data.is_empty()) {
            self.device.write(
                buffer,
                start.saturating_mul(size_of::<T>() as u64),
                bytemuck::cast_slice(data),
            )?;
        }
        Ok(())
    }

    /// Reads `elements` of an input, buffer or output from its start, after all that was submitted.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or it is smaller.
    pub async fn read<T: bytemuck::Pod>(
        &self,
        name: &str,
        elements: u64,
    ) -> Result<Vec<T>, SessionError> {
        let buffer = self.buffer(name)?;
        if elements == 0 {
            return Ok(Vec::new());
        }
        let bytes = self
            .device
            .read(buffer, 0..elements.saturating_mul(size_of::<T>() as u64))
            .await?;
        Ok(bytemuck::pod_collect_to_vec(&bytes))
    }

    /// Runs one of the program's calls several times, in one submission, to measure it.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn run_call(&self, call: usize, dims: &Dims, times: usize) -> Result<(), SessionError> {
        self.write_params(dims)?;
        let one = self
            .calls
            .get(call)
            .and_then(|call| self.dispatch(call, dims));
        Ok(self
            .device
            .submit(std::iter::repeat_n(one, times).flatten())?)
    }

    /// What a call runs with these dimensions; `None` if it has nothing to do.
    pub(super) fn dispatch_of<'a>(&'a self, call: usize, dims: &Dims) -> Option<Dispatch<'a>> {
        self.dispatch(self.calls.get(call)?, dims)
    }

    /// The kernel that a call runs with these dimensions.
    pub fn kernel_of(&self, call: usize, dims: &Dims) -> Option<&'static str> {
        let dispatch = self.dispatch_of(call, dims)?;
        Some(dispatch.pipeline.kernel().name)
    }

    /// Runs the program once.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn run(&self, dims: &Dims) -> Result<(), SessionError> {
        submit(&self.device, &[(self, dims)], 1)
    }

    /// Writes the parameters for these dimensions, if they are not written yet.
    pub(super) fn write_params(&self, dims: &Dims) -> Result<(), SessionError> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.as_ref() == Some(dims) {
            return Ok(());
        }
        let mut bytes = vec![0u8; self.program.calls.len() * PARAMS_STRIDE as usize];
        for (call, chunk) in self
            .program
            .calls
            .iter()
            .zip(bytes.chunks_mut(PARAMS_STRIDE as usize))
        {
            for (word, slot) in params(call, dims)?.iter().zip(chunk.chunks_exact_mut(4)) {
                slot.copy_from_slice(&word.to_le_bytes());
            }
            for size in &call.grid {
                evaluate(&call.label, size, dims)?;
            }
            if let Some(counts) = call.custom_workgroups(&dims.0) {
                self.check_workgroups(&call.label, counts)?;
            }
        }
        self.device.write(&self.params, 0, &bytes)?;
        *written = Some(dims.clone());
        Ok(())
    }

    /// Checks how many workgroups a custom op asks for.
    fn check_workgroups(
        &self,
        op: &str,
        counts: Result<[u64; 3], ValueError>,
    ) -> Result<(), SessionError> {
        let most = u64::from(self.device.info().capabilities.max_workgroups);
        let problem = match counts {
            Ok(counts) if counts.iter().all(|count| *count <= most) => return Ok(()),
            Ok(counts) => format!("it asks for {counts:?} workgroups, at most {most} are possible"),
            Err(error) => format!("its workgroups cannot be counted: {error}"),
        };
        Err(SessionError::Custom {
            op: op.into(),
            problem,
        })
    }

    /// The dispatches of one run; calls with an empty grid are left out.
    pub(super) fn dispatches<'a>(&'a self, dims: &'a Dims) -> impl Iterator<Item = Dispatch<'a>> {
        self.calls
            .iter()
            .filter_map(|call| self.dispatch(call, dims))
    }

    /// What one run does, one for each of its dispatches.
    pub(super) fn works<'a>(&'a self, dims: &'a Dims) -> impl Iterator<Item = Work> + 'a {
        let sizes = self.program.dims.iter().zip(&dims.0);
        let sizes: Vec<String> = sizes.map(|(name, size)| format!("{name}={size}")).collect();
        let sizes = sizes.join(" ");
        let calls = self.calls.iter().zip(&self.program.calls);
        calls.filter_map(move |(bound, call)| {
            let kernel = self.dispatch(bound, dims)?.pipeline.kernel().name;
            let rows = call.grid[1].eval(&dims.0)?;
            Some(Work::of(&self.program, call, kernel, &sizes, rows))
        })
    }

    /// `write_params` has evaluated every size before.
    fn dispatch<'a>(&self, bound: &'a BoundCall, dims: &Dims) -> Option<Dispatch<'a>> {
        let BoundCall {
            pipelines,
            group,
            call,
        } = bound;
        if let Some(counts) = call.custom_workgroups(&dims.0) {
            let workgroups = counts.ok()?.map(|count| count as u32);
            let (pipeline, ..) = pipelines.first()?;
            return (!workgroups.contains(&0)).then_some(Dispatch {
                pipeline,
                group,
                workgroups,
            });
        }
        let [x, y] = [call.grid[0].eval(&dims.0)?, call.grid[1].eval(&dims.0)?];
        if x == 0 || y == 0 {
            return None;
        }
        let (pipeline, _, tile) = pipelines.iter().find(|(_, max, _)| y <= u64::from(*max))?;
        let [x, y] = [
            x.div_ceil(tile[0].into()) as u32,
            y.div_ceil(tile[1].into()) as u32,
        ];
        let most = self.device.info().capabilities.max_workgroups.max(1);
        // A long row of workgroups is folded into the next dimension; kernels unfold it.
        let workgroups = match () {
            () if x <= most => [x, y, 1],
            () if !pipeline.kernel().folds_into_z => [most, x.div_ceil(most), 1],
            () => [most, y, x.div_ceil(most)],
        };
        Some(Dispatch {
            pipeline,
            group,
            workgroups,
        })
    }
}

/// The words of a call's parameters.
pub(super) fn params(call: &Call, dims: &Dims) -> Result<Vec<u32>, SessionError> {
    let words = call.params.iter().map(|word| match word {
        Word::Const(value) => Ok(*value),
        Word::Size(size) => evaluate(&call.label, size, dims),
    });
    words.collect()
}

fn evaluate(label: &str, size: &Size, dims: &Dims) -> Result<u32, SessionError> {
    let value = size.eval(&dims.0);
    value
        .and_then(|value| u32::try_from(value).ok())
        .ok_or_else(|| SessionError::Dimension {
            name: format!("a size of {label}"),
            size: value,
            most: u32::MAX.into(),
        })
}

/// An input's memory: the caller's, or new.
fn memory(
    device: &Device,
    port: &Port,
    bytes: u64,
    options: &InitOptions<'_>,
) -> Result<Buffer, SessionError> {
    match options.shared.get(&port.name) {
        None => Ok(device.allocate(&port.name, bytes, Usage::Storage)?),
        Some(buffer) if buffer.bytes() >= bytes => Ok(buffer.clone()),
        Some(buffer) => Err(SessionError::SmallBuffer {
            name: port.name.clone(),
            needed: bytes,
            bytes: buffer.bytes(),
        }),
    }
}

/// Runs several models one after the other, `steps` times over, in one submission.
///
/// # Errors
///
/// If the device fails.
pub fn submit(
    device: &Device,
    models: &[(&Model, &Dims)],
    steps: usize,
) -> Result<(), SessionError> {
    for (model, dims) in models {
        model.write_params(dims)?;
    }
    let debugger = models.first().map(|(model, _)| &model.debugger);
    if let Some(debugger) = debugger.filter(|debugger| debugger.is_on(models)) {
        #[cfg(not(target_arch = "wasm32"))]
        return pollster::block_on(debugger.run(device, models, steps));
        #[cfg(target_arch = "wasm32")]
        return debugger.cannot_wait();
    }
    let run = || {
        models
            .iter()
            .flat_map(|(model, dims)| model.dispatches(dims))
    };
    let dispatches = (0..steps).flat_map(|_| run());
    match models.first().map(|(model, _)| &model.profiler) {
        Some(profiler) if profiler.mode() != GpuProfiling::Off => {
            profiler.submit(device, models, steps, dispatches)
        }
        _ => Ok(device.submit(dispatches)?),
    }
}

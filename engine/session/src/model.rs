//! A model: a program bound to weights, memory and pipelines, ready to run.

use std::{collections::HashMap, sync::Arc};

use super::{
    CompiledModel, InferenceSession, InitOptions, Profiler, SessionError,
    bind::{self, Choice, Memory},
    debug::Debugger,
    load::DeviceWeights,
    run::Recording,
    tensor::Tensor,
};
use wisp_compiler::{Port, Program};
use wisp_device::{Buffer, Device, DeviceError};
use wisp_types::Dim;
use wisp_weights::WeightSource;

/// The sizes of a program's symbolic dimensions in one run, in the program's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dims(pub(super) Vec<u64>);

/// A program on a device: nothing is allocated, compiled or bound any more when it runs.
#[derive(Debug)]
pub struct Model {
    pub(super) device: Device,
    pub(super) profiler: Arc<Profiler>,
    pub(super) debugger: Arc<Debugger>,
    pub(super) program: Program,
    max_dims: Vec<u64>,
    pub(super) memory: Memory,
    /// The kernels of each call.
    pub(super) choices: Vec<Vec<Choice>>,
    /// The run of the last sizes.
    pub(super) recording: Recording,
    /// Runs of sizes that are kept.
    pub(super) captured: Vec<(Dims, Recording)>,
}

impl Model {
    pub(super) async fn new(
        session: &InferenceSession,
        compiled: &CompiledModel,
        weights: &dyn WeightSource,
        options: &InitOptions<'_>,
        loaded: &mut DeviceWeights,
    ) -> Result<Model, SessionError> {
        let device = session.device();
        let program = compiled.program().clone();
        let max_dims = program.sizes(|name| options.max_dims.get(name).copied());
        let max_dims = max_dims.map_err(|name| SessionError::NoLargest {
            model: program.name.clone(),
            name: name.into(),
        })?;
        let memory = Memory::new(device, &program, &max_dims, weights, options, loaded).await?;
        let choices = program.calls.iter();
        let choices = choices.map(|call| bind::choices(session, compiled, call));
        Ok(Model {
            device: device.clone(),
            profiler: session.profiler.clone(),
            debugger: session.debugger.clone(),
            choices: choices.collect::<Result<_, _>>()?,
            recording: Recording::new(device, &program, &memory)?,
            program,
            max_dims,
            memory,
            captured: Vec::new(),
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
        self.program.calls.len()
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
        for check in &self.program.size_checks {
            let [needed, available] = [&check.needed, &check.available].map(|sum| sum.eval(&dims));
            if needed.is_none_or(|needed| available.is_some_and(|available| needed > available)) {
                return Err(SessionError::Bound {
                    model: self.program.name.clone(),
                    label: check.label.clone(),
                    needed: needed.unwrap_or(u64::MAX),
                    available: available.unwrap_or(u64::MAX),
                });
            }
        }
        Ok(Dims(dims))
    }

    /// The size of a dimension in a run.
    pub(super) fn size_of(&self, dim: &Dim, dims: &Dims) -> Option<u64> {
        dim.resolve(|name| {
            let at = self.program.dims.iter().position(|dim| dim == name)?;
            dims.0.get(at).copied()
        })
    }

    fn wrong_dimension(&self, name: &str, size: Option<u64>) -> SessionError {
        let at = self.program.dims.iter().position(|dim| dim == name);
        SessionError::Dimension {
            name: name.into(),
            size,
            most: at.map_or(u64::MAX, |at| self.max_dims[at]),
        }
    }

    pub(super) fn port<'a>(
        &self,
        what: &'static str,
        ports: &'a [Port],
        name: &str,
    ) -> Result<&'a Port, SessionError> {
        let found = ports.iter().find(|port| port.name == name);
        found.ok_or_else(|| self.unknown_port(what, ports.iter(), name))
    }

    fn unknown_port<'a>(
        &self,
        what: &'static str,
        ports: impl Iterator<Item = &'a Port>,
        name: &str,
    ) -> SessionError {
        SessionError::UnknownPort {
            model: self.program.name.clone(),
            what,
            name: name.into(),
            has: ports.map(|port| port.name.clone()).collect(),
        }
    }

    /// The device memory of an input, buffer or output, to share with another model or to read.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or it is a weight that was released.
    pub fn buffer(&self, name: &str) -> Result<&Buffer, SessionError> {
        let ports = || self.program.inputs.iter().chain(&self.program.outputs);
        let port = ports().find(|port| port.name == name);
        self.memory_of(
            port.ok_or_else(|| self.unknown_port("input, buffer or output", ports(), name))?,
        )
    }

    /// The device memory of one of the program's ports; only weights can be without.
    pub(super) fn memory_of(&self, port: &Port) -> Result<&Buffer, SessionError> {
        let buffer = self.memory.buffer(port.buffer);
        buffer.ok_or_else(|| self.released())
    }

    /// Writes an input or buffer, from its start, before whatever runs next.
    ///
    /// # Errors
    ///
    /// If there is no input or buffer of that name, or it is smaller than `data`.
    pub fn write<T: bytemuck::NoUninit>(&self, name: &str, data: &[T]) -> Result<(), SessionError> {
        self.write_at(name, 0, data)
    }

    /// Writes part of an input or buffer, `start` elements of `T` from its start.
    ///
    /// # Errors
    ///
    /// If there is no input or buffer of that name, or the part is outside it.
    pub fn write_at<T: bytemuck::NoUninit>(
        &self,
        name: &str,
        start: u64,
        data: &[T],
    ) -> Result<(), SessionError> {
        let port = self.port("input or buffer", &self.program.inputs, name)?;
        if let (Some(buffer), false) = (self.memory.buffer(port.buffer), data.is_empty()) {
            let start = start.saturating_mul(size_of::<T>() as u64);
            let written = self.device.write(buffer, start, bytemuck::cast_slice(data));
            written.map_err(|error| named(name, error))?;
        }
        Ok(())
    }

    /// Writes a tensor to the start of an input or buffer. A tensor that is the input's own memory costs
    /// nothing.
    ///
    /// # Errors
    ///
    /// If there is no input or buffer of that name, it is smaller than the tensor, or a device fails.
    pub async fn write_tensor(&self, name: &str, tensor: &Tensor) -> Result<(), SessionError> {
        let port = self.port("input or buffer", &self.program.inputs, name)?;
        let buffer = self.memory_of(port)?;
        let written = tensor.write_to(&self.device, buffer).await;
        Ok(written.map_err(|error| named(name, error))?)
    }

    /// An input or buffer as a tensor in the model's own memory, for a run of some sizes.
    ///
    /// # Errors
    ///
    /// If there is no input or buffer of that name.
    pub fn input_on_device(&self, name: &str, dims: &Dims) -> Result<Tensor, SessionError> {
        let port = self.port("input or buffer", &self.program.inputs, name)?;
        self.port_on_device(port, dims)
    }

    /// Reads `elements` of an input, buffer or output from its start, as they are after everything
    /// recorded before this call. The read starts now, and starts the recorded work too: what is recorded
    /// before the returned future is awaited comes after it.
    ///
    /// # Errors
    ///
    /// As [`Self::buffer`], and if it is smaller.
    pub fn read<T: bytemuck::Pod>(
        &self,
        name: &str,
        elements: u64,
    ) -> impl Future<Output = Result<Vec<T>, SessionError>> + use<T> {
        let bytes = elements.saturating_mul(size_of::<T>() as u64);
        let read = self.buffer(name).map(|buffer| match bytes {
            0 => None,
            _ => Some(self.device.read(buffer, 0..bytes)),
        });
        let name = name.to_string();
        async move {
            let Some(read) = read? else {
                return Ok(Vec::new());
            };
            let bytes = read.await.map_err(|error| named(&name, error))?;
            Ok(bytemuck::pod_collect_to_vec(&bytes))
        }
    }
}

/// An error by the name of an input or output, whose buffer may have another one.
fn named(name: &str, error: DeviceError) -> DeviceError {
    match error {
        DeviceError::OutOfBounds {
            start, end, bytes, ..
        } => DeviceError::OutOfBounds {
            label: name.into(),
            start,
            end,
            bytes,
        },
        other => other,
    }
}

//! A model: a program bound to weights, memory and pipelines.

use std::{collections::HashMap, sync::Arc};

use futures_util::lock::Mutex;
use web_time::Instant;

use crate::{
    bind::{self, Choice, Memory},
    compiled::CompiledModel,
    debug::{Debugger, LogLevel, Subject},
    dims::Dims,
    error::SessionError,
    init_options::InitOptions,
    profiler::Profiler,
    recording::Recording,
    session::InferenceSession,
    weights::DeviceWeights,
};
use wisp_compiler::{Port, Program};
use wisp_device::{Buffer, Device};
use wisp_types::Dim;
use wisp_weights::WeightSource;

/// A program that is ready to run on a device: a run allocates, compiles and binds nothing.
#[derive(Debug)]
pub struct Model {
    pub(crate) device: Device,
    pub(crate) profiler: Arc<Profiler>,
    pub(crate) debugger: Arc<Debugger>,
    pub(crate) program: Program,
    /// Whether its kernels run without bounds checks.
    pub(crate) trusted: bool,
    max_dims: Vec<u64>,
    pub(crate) memory: Memory,
    /// The candidate kernels of each call; none of calls that no run makes.
    pub(crate) choices: Vec<Vec<Choice>>,
    /// The runs of the most recent sizes.
    pub(crate) recording: Recording,
    /// Captured runs, by their sizes.
    pub(crate) captured: Vec<(Dims, Recording)>,
    /// Held from the writing of inputs to the beginning of the outputs' reading, both of which are the model's own.
    pub(crate) execution: Mutex<()>,
}

impl Model {
    /// Prepares the kernels that runs up to the largest sizes need, and loads the weights.
    pub(crate) async fn new(
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
        session.prepare_kernels(compiled, program.kernels_within(&max_dims))?;
        let loading = Instant::now();
        let memory = Memory::new(device, &program, &max_dims, weights, options, loaded).await?;
        let choices = program
            .calls
            .iter()
            .map(|call| match call.may_be_made(&max_dims) {
                true => bind::choices(session, compiled, call),
                false => Ok(Vec::new()),
            });
        let model = Model {
            device: device.clone(),
            profiler: session.profiler.clone(),
            debugger: session.debugger.clone(),
            choices: choices.collect::<Result<_, _>>()?,
            recording: Recording::new(device, &program, &memory)?,
            program,
            trusted: compiled.is_trusted(),
            max_dims,
            memory,
            captured: Vec::new(),
            execution: Mutex::default(),
        };
        session.programs.loaded(loading);
        let (device, name) = (&device.info().name, &model.program.name);
        let subject = Subject {
            device,
            model: Some(name),
            ..Subject::default()
        };
        session.debugger.log(LogLevel::Info, subject, || {
            let calls = model.dispatches_per_run();
            format!("{device}: {name} with {calls} kernel calls")
        });
        Ok(model)
    }

    /// The model's device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The profiler of the model's session.
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

    /// The number of the program's kernel calls, of which runs skip some if their conditions do not hold;
    /// [`Self::dispatches`] counts those of a run.
    pub fn dispatches_per_run(&self) -> usize {
        self.program.calls.len()
    }

    /// Checks the sizes of the symbolic dimensions for a run.
    ///
    /// # Errors
    ///
    /// If one is missing or larger than the model was initialised for, or a slice would exceed its operand.
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
    pub(crate) fn size_of(&self, dim: &Dim, dims: &Dims) -> Option<u64> {
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

    pub(crate) fn port<'a>(
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
    /// If the model has none of that name, or it is a weight that was released.
    pub fn buffer(&self, name: &str) -> Result<&Buffer, SessionError> {
        let ports = || self.program.inputs.iter().chain(&self.program.outputs);
        let port = ports().find(|port| port.name == name);
        self.memory_of(
            port.ok_or_else(|| self.unknown_port("input, buffer or output", ports(), name))?,
        )
    }

    /// The device memory of a port. Only released weights have none.
    pub(crate) fn memory_of(&self, port: &Port) -> Result<&Buffer, SessionError> {
        let buffer = self.memory.buffer(port.buffer);
        buffer.ok_or_else(|| self.released())
    }
}

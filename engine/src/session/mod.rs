//! Sessions: graphs are compiled, given their weights, and run.
//!
//! The surface follows Modular MAX's `max.engine.InferenceSession`: `compile` needs neither
//! weights nor a device, `init` binds weights, `load` does both, and a [`Model`] executes;
//! `compile_module`, `init_all` and `load_all` do the same for several graphs with common weights.
//! Every async method has a blocking twin for native callers.

mod artefact;
mod compiled;
mod debug;
mod differences;
mod execute;
mod extensions;
mod load;
mod model;
mod modules;
mod profile;
mod profiler;
mod start;

use std::{collections::HashMap, sync::Arc};

use crate::{
    compiler::{self, CompileError, TargetError},
    device::{Buffer, Capabilities, Device, DeviceError},
    extension::Extensions,
    graph::{Graph, GraphError},
    weights::{WeightError, WeightSource, encodings::EncodingError},
};

pub use artefact::ArtefactError;
pub use compiled::{CompiledModel, CompiledModule};
pub use debug::{AssertLevel, DebugConfig, DebugError, LogLevel, PrintOptions, PrintStyle};
pub use execute::Tensor;
use load::DeviceWeights;
pub use model::{Dims, Model, submit};
pub use profile::{Profile, ProfileRow, Span, Work};
pub use profiler::{GpuProfiling, Profiler};
pub use start::StartTimes;

/// What can go wrong in a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Occurs when a graph cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// Occurs when a target cannot run a graph.
    #[error(transparent)]
    Unable(#[from] TargetError),
    /// Occurs when a custom op does not fit the built-in one whose place it takes.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// Occurs when a custom op is to run on the host, which runs no WGSL.
    #[error(
        "the custom op {op:?} has no twin on the host: give it one by Extensions::with_twin, or use a GPU"
    )]
    NoTwin {
        /// The op.
        op: String,
    },
    /// Occurs when a custom op cannot run with the sizes at hand.
    #[error("the custom op {op:?}: {problem}")]
    Custom {
        /// The op.
        op: String,
        /// Why.
        problem: String,
    },
    /// Occurs when debugging finds something, or its settings are wrong.
    #[error(transparent)]
    Debug(Box<DebugError>),
    /// Occurs when the device fails in an op that is run by itself.
    #[error("{op} ({kernel}): {source}")]
    InOp {
        /// The op.
        op: String,
        /// Its kernel.
        kernel: &'static str,
        /// The device's error.
        source: Box<DeviceError>,
    },
    /// Occurs when the device fails.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Occurs when the checkpoint cannot be read.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// Occurs when a tensor's bytes do not fit its shape.
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    /// Occurs when the checkpoint lacks tensors, or has them in another shape or encoding.
    #[error("the checkpoint does not fit {graph}: {}", .problems.join("; "))]
    Mismatch {
        /// The graph.
        graph: String,
        /// Every problem found.
        problems: Vec<String>,
    },
    /// Occurs when a program names a kernel that this build does not have.
    #[error(
        "the program needs the kernel {0}, which this version of Wisp does not have: compile it again"
    )]
    UnknownKernel(String),
    /// Occurs when a program needs what the device does not have.
    #[error("{graph} was compiled for another device, {device} cannot run {}: compile it for this one", .missing.join(", "))]
    Target {
        /// The graph.
        graph: String,
        /// The device.
        device: String,
        /// What the program needs.
        missing: Vec<String>,
    },
    /// Occurs when what was compiled elsewhere is not this graph.
    #[error("the compiled model does not fit {graph}: {}: compile it again", .differences.join("; "))]
    OtherGraph {
        /// The graph.
        graph: String,
        /// What differs.
        differences: Vec<String>,
    },
    /// Occurs when a compiled model cannot be used.
    #[error(transparent)]
    Artefact(#[from] ArtefactError),
    /// Occurs when a dimension is not given, or larger than the model was made for.
    #[error("dimension {name} is {}, the model was made for at most {most}", .size.map_or("not given".into(), |size| size.to_string()))]
    Dimension {
        /// The dimension.
        name: String,
        /// Its size, if it is given.
        size: Option<u64>,
        /// The largest size allowed.
        most: u64,
    },
    /// Occurs when an input, buffer or output is named that the model does not have.
    #[error("{model} has no {what} called {name:?}; it has {}", .has.join(", "))]
    UnknownPort {
        /// The model.
        model: String,
        /// "input", "buffer" or "output".
        what: &'static str,
        /// The name that was given.
        name: String,
        /// The names there are.
        has: Vec<String>,
    },
    /// Occurs when a model is given another number of inputs than it takes.
    #[error("{model} takes {} inputs ({}), but {given} are given", .expected.len(), .expected.join(", "))]
    Inputs {
        /// The model.
        model: String,
        /// How many are given.
        given: usize,
        /// The inputs that it takes.
        expected: Vec<String>,
    },
    /// Occurs when an input is absent, or has another type or shape.
    #[error("{model}: the input {name:?} is {given}, expected {expected}")]
    Input {
        /// The model.
        model: String,
        /// The input.
        name: String,
        /// Its type and shape.
        expected: String,
        /// What is given.
        given: String,
    },
    /// Occurs when memory given for a buffer is too small for its largest shape.
    #[error("{name} needs {needed} bytes, but the buffer given for it has {bytes}")]
    SmallBuffer {
        /// The buffer.
        name: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes given.
        bytes: u64,
    },
}

impl From<DebugError> for SessionError {
    fn from(error: DebugError) -> SessionError {
        SessionError::Debug(Box::new(error))
    }
}

/// How a compiled graph is bound: sizes, memory of the caller, and who hears of progress.
#[derive(Default)]
pub struct InitOptions<'a> {
    /// The largest size that each symbolic dimension will have.
    pub max_dims: HashMap<String, u64>,
    /// Device memory for inputs, buffers and outputs that the model shares with others. Inputs and
    /// buffers not named here are allocated, all zero.
    pub shared: HashMap<String, Buffer>,
    /// Called with the bytes of weights loaded so far and in all.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Send + Sync)>,
}

/// Compiles graphs and gives them weights, on one device.
#[derive(Clone, Debug)]
pub struct InferenceSession {
    device: Device,
    start: Arc<start::Start>,
    profiler: Arc<Profiler>,
    debugger: Arc<debug::Debugger>,
    extensions: Arc<Extensions>,
}

impl InferenceSession {
    /// A session on a device.
    pub fn new(device: Device) -> InferenceSession {
        InferenceSession {
            device,
            start: Arc::default(),
            profiler: Arc::default(),
            debugger: Arc::default(),
            extensions: Arc::default(),
        }
    }

    /// The session, but it keeps what it compiles in a folder, and finds it there the next time:
    /// programs and, where the driver has such a thing, pipelines. To be called before anything is
    /// compiled.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn with_cache(self, cache: crate::disk_cache::DiskCache) -> InferenceSession {
        self.device.use_cache(&cache);
        let mut start = Arc::unwrap_or_clone(self.start);
        start.cache = Some(cache);
        InferenceSession {
            start: Arc::new(start),
            ..self
        }
    }

    /// The session, but it takes graphs from what was compiled elsewhere and compiles nothing itself.
    /// To be called before anything is compiled.
    pub fn with_compiled(self, module: CompiledModule) -> InferenceSession {
        let mut start = Arc::unwrap_or_clone(self.start);
        start.given = Some(module);
        InferenceSession {
            start: Arc::new(start),
            ..self
        }
    }

    /// Everything that the session has compiled so far.
    ///
    /// # Errors
    ///
    /// If two graphs have one name.
    pub fn compiled(&self) -> Result<CompiledModule, SessionError> {
        Ok(CompiledModule::of(self.start.made())?)
    }

    /// The session's device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What the session has spent so far on compiling and loading.
    pub fn start_times(&self) -> StartTimes {
        self.start.times()
    }

    /// Times nothing, each submission or each kernel of what the session's models run from now on,
    /// whatever `WISP_ENABLE_PROFILING` says; off costs nothing.
    pub fn gpu_profiling(&self, mode: GpuProfiling) {
        self.profiler.set(mode);
    }

    /// What times the session's models, and has the results.
    pub fn profiler(&self) -> &Profiler {
        &self.profiler
    }

    /// Compiles a graph for the session's device, or finds it in the session's cache.
    ///
    /// # Errors
    ///
    /// If the graph asks for what no kernel of the device can do.
    pub fn compile(&self, graph: &Graph) -> Result<CompiledModel, SessionError> {
        self.debugger.config()?;
        let target = &self.device.info().capabilities;
        self.start.compile(&*self.extended(graph)?, target)
    }

    /// Makes the pipelines of a compiled graph, without weights, so that loading it later takes less.
    /// Where the session has a cache they stay in it.
    ///
    /// # Errors
    ///
    /// If the device lacks what the graph was compiled for, or its compiler fails.
    pub fn prepare(&self, compiled: &CompiledModel) -> Result<(), SessionError> {
        self.start.pipelines(self, compiled)
    }

    /// Compiles a graph for any target; neither weights nor that device are needed.
    ///
    /// # Errors
    ///
    /// If the graph asks for what no kernel of the target can do.
    pub fn compile_for(
        graph: &Graph,
        target: &Capabilities,
    ) -> Result<CompiledModel, SessionError> {
        Ok(CompiledModel::new(compiler::compile(graph, target)?))
    }

    /// Gives a compiled graph its weights, memory and pipelines.
    ///
    /// # Errors
    ///
    /// If weights are absent or of another shape (all of them are listed), or the device fails.
    pub async fn init(
        &self,
        compiled: &CompiledModel,
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<Model, SessionError> {
        self.prepare(compiled)?;
        let loading = start::Stopwatch::start();
        let model = Model::new(
            self,
            compiled,
            weights,
            &options,
            &mut DeviceWeights::default(),
        )
        .await?;
        self.start.loaded(loading);
        self.debugger.log(LogLevel::Info, || {
            let (name, calls) = (&compiled.program().name, model.dispatches_per_run());
            format!(
                "{}: {name} with {calls} kernel calls",
                self.device.info().name
            )
        });
        Ok(model)
    }

    /// Compiles a graph and gives it its weights.
    ///
    /// # Errors
    ///
    /// As [`Self::compile`] and [`Self::init`].
    pub async fn load(
        &self,
        graph: &Graph,
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<Model, SessionError> {
        let compiled = self.compile(graph)?;
        self.init(&compiled, weights, options).await
    }

    /// [`Self::init`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::init`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn init_blocking(
        &self,
        compiled: &CompiledModel,
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<Model, SessionError> {
        pollster::block_on(self.init(compiled, weights, options))
    }

    /// [`Self::load`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn load_blocking(
        &self,
        graph: &Graph,
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<Model, SessionError> {
        pollster::block_on(self.load(graph, weights, options))
    }
}

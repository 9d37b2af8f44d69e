//! Sessions: graphs are compiled, given their weights, and run.
//!
//! The surface follows Modular MAX's `max.engine.InferenceSession`: `compile` needs neither
//! weights nor a device, `init` binds weights, `load` does both, and a [`Model`] executes;
//! `compile_module`, `init_all` and `load_all` do the same for several graphs with common weights.
//! Every async method has a blocking twin for native callers.
//!
//! 1. [`InferenceSession::new`] takes a [`Device`], [`InferenceSession::builder`] several.
//! 2. [`InferenceSession::compile`] makes a [`CompiledModel`] of a [`Graph`]; so does
//!    [`CompiledModel::load`] of a file, and [`CompiledModule::compile`] makes such for any
//!    [target](wisp_compiler::Target).
//! 3. [`InferenceSession::init`] checks that every weight is there, takes them to the device, and reserves
//!    all memory that a run takes, for symbolic dimensions up to [`InitOptions::max_dims`].
//! 4. [`Model::execute`] runs it once with tensors of the host. [`Model::write`], [`Model::run`] and
//!    [`Model::read`] are its parts; what is not read stays on the device.
//!
//! ```
//! use wisp_engine::{
//!     device::Device,
//!     graph::{Binary, DType, Graph},
//!     session::{InferenceSession, InitOptions},
//!     shape,
//!     weights::MemoryWeights,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut graph = Graph::new("double");
//! let x = graph.input("x", DType::F32, shape![2u64]);
//! let twice = graph.binary(Binary::Add, x, x)?;
//! graph.output("twice", twice);
//! let session = InferenceSession::new(Device::host(1)?);
//! let first = session.load_blocking(&graph, &MemoryWeights::default(), InitOptions::default())?;
//!
//! // A second model reads the memory that the first one writes.
//! let shared = [("x".to_string(), first.buffer("twice")?.clone())].into();
//! let options = InitOptions { shared, ..Default::default() };
//! let second = session.load_blocking(&graph, &MemoryWeights::default(), options)?;
//! first.write("x", &[1.0f32, 2.0])?;
//! let dims = first.dims(&[])?;
//! // Both runs reach the device together when the result is read.
//! first.run(&dims)?;
//! second.run(&dims)?;
//! assert_eq!(pollster::block_on(second.read::<f32>("twice", 2))?, [4.0, 8.0]);
//!
//! // A model that lacks weights says all of them.
//! let weight = graph.weight("scale", wisp_engine::weights::Encoding::F32, shape![2u64]);
//! let scaled = graph.binary(Binary::Mul, twice, weight)?;
//! graph.output("scaled", scaled);
//! let error = session.load_blocking(&graph, &MemoryWeights::default(), InitOptions::default());
//! assert_eq!(
//!     error.unwrap_err().to_string(),
//!     "the checkpoint does not fit double: scale is missing"
//! );
//! # Ok(())
//! # }
//! ```
//!
//! A [`Model`] stays what it is while its weights change ([`Model::reload`]) or leave their memory
//! ([`Model::release`]); what it does for inputs of one shape can be prepared once ([`Model::capture`],
//! [`Model::replay`]). A [`Tensor`] is in the program's memory or on a device, and goes from one to
//! another ([`Tensor::to`]).
//!
//! A session has one device or several, and always the host ([`InferenceSession::builder`]). A graph runs
//! on one of them ([`InferenceSession::on`]), or in stages on several ([`InferenceSession::load_split`]):
//!
//! ```
//! use wisp_engine::{
//!     device::Device,
//!     graph::{DType, Graph, Unary},
//!     session::{InferenceSession, InitOptions, Tensor},
//!     shape,
//!     weights::MemoryWeights,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut graph = Graph::new("root");
//! let x = graph.input("x", DType::F32, shape![2u64]);
//! let root = graph.unary(Unary::Sqrt, x)?;
//! graph.output("root", root);
//!
//! // Two devices; here both are the host. Each has a model of the graph.
//! let devices = [Device::host(1)?, Device::host(1)?];
//! let session = InferenceSession::builder().devices(devices).build_blocking()?;
//! let on = |device| {
//!     let session = session.on(device)?;
//!     session.load_blocking(&graph, &MemoryWeights::default(), InitOptions::default())
//! };
//! let (first, second) = (on(0)?, on(1)?);
//! // What the first makes stays on its device until the second takes it.
//! let x = Tensor::f32(&[2], &[16.0, 81.0]).ok_or("two numbers")?;
//! let root = pollster::block_on(first.execute_on_device(&[&x]))?;
//! let fourth = pollster::block_on(second.execute(&[&root[0]]))?;
//! assert_eq!(fourth[0].as_f32(), Some(&[2.0, 3.0][..]));
//! # Ok(())
//! # }
//! ```

mod artefact;
mod bind;
mod builder;
mod capture;
mod compiled;
mod debug;
mod differences;
mod execute;
mod extensions;
mod lifecycle;
mod load;
mod model;
mod modules;
mod profile;
mod profiler;
mod run;
mod split;
mod start;
mod switches;
mod tensor;

use std::{collections::HashMap, sync::Arc};

use wisp_compiler::{self, CompileError, TargetError};
use wisp_device::{Buffer, Device, DeviceError};
use wisp_graph::{Graph, GraphError, SplitError, extension::Extensions};
use wisp_types::Capabilities;
use wisp_weights::{WeightError, WeightSource, encodings::EncodingError};

pub use artefact::ArtefactError;
pub use builder::{SessionBuilder, SessionDevice};
pub use compiled::{CompiledModel, CompiledModule};
pub use debug::{AssertLevel, DebugConfig, DebugError, LogLevel, PrintOptions, PrintStyle};
use load::DeviceWeights;
pub use model::{Dims, Model};
pub use profile::{ProfileRow, Span, TimingReport, Work};
pub use profiler::{GpuProfiling, Profiler};
pub use split::SplitModel;
pub use start::StartTimes;
pub use tensor::Tensor;
pub use wisp_compiler::{SplitKReductionPrecision, Switches};

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
    /// Occurs when a weight that is to become 8-bit floats has numbers that are not finite.
    #[error(
        "{tensor} has numbers that are not finite: it cannot become F8_E4M3; load it without enable_per_tensor_fp8_quantize"
    )]
    NotFinite {
        /// The tensor.
        tensor: String,
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
    /// Occurs when a model is made without the largest size of a dimension.
    #[error(
        "{model} needs the largest size of its dimension {name}: give it in InitOptions::max_dims"
    )]
    NoLargest {
        /// The model.
        model: String,
        /// The dimension.
        name: String,
    },
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
    /// Occurs when a size of an op, which follows from the dimensions of a run, is more than kernels count.
    #[error(
        "{op}: a size is {size}, but kernels count to {}: give it smaller inputs",
        u32::MAX
    )]
    TooLarge {
        /// The op.
        op: String,
        /// The size; the greatest number if it is greater.
        size: u64,
    },
    /// Occurs when a slice would be outside what it is of.
    #[error("{model}: {label} reads {needed} parts, but there are {available}")]
    Bound {
        /// The model.
        model: String,
        /// The op and its operand.
        label: String,
        /// Parts that it reads.
        needed: u64,
        /// Parts that there are.
        available: u64,
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
    /// Occurs when a model runs whose weights were released.
    #[error("the weights of {model} were released: reload them before it runs")]
    Released {
        /// The model.
        model: String,
    },
    /// Occurs when a run is replayed that was not captured.
    #[error("{model} has not captured a run of inputs of these sizes ({sizes}): capture it first")]
    NotCaptured {
        /// The model.
        model: String,
        /// The sizes of the symbolic dimensions.
        sizes: String,
    },
    /// Occurs when a graph is placed on a device that the session does not have.
    #[error("the session has no device {index}, only {}", numbered(.has))]
    NoDevice {
        /// The device's number.
        index: usize,
        /// The devices that there are.
        has: Vec<String>,
    },
    /// Occurs when a graph cannot be split as asked for.
    #[error(transparent)]
    Split(#[from] SplitError),
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

/// Names with their numbers: `0 (llvmpipe), 1 (host CPU)`.
fn numbered(names: &[String]) -> String {
    let numbered = names.iter().enumerate();
    let numbered: Vec<String> = numbered.map(|(i, name)| format!("{i} ({name})")).collect();
    numbered.join(", ")
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

/// Compiles graphs and gives them weights, on one device or several.
#[derive(Clone, Debug)]
pub struct InferenceSession {
    devices: Arc<[Device]>,
    /// The one that graphs are compiled for and run on if they are placed nowhere else.
    device: Device,
    start: Arc<start::Start>,
    profiler: Arc<Profiler>,
    debugger: Arc<debug::Debugger>,
    extensions: Arc<Extensions>,
}

impl InferenceSession {
    /// The session, but it keeps what it compiles in a folder, and finds it there the next time:
    /// programs and, where the driver has such a thing, pipelines. To be called before anything is
    /// compiled.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn with_cache(self, cache: wisp_files::DiskCache) -> InferenceSession {
        for device in self.devices.iter() {
            device.use_cache(&cache);
        }
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
        Ok(CompiledModel::new(wisp_compiler::compile(graph, target)?))
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

//! Sessions compile graphs, bind them to weights and execute them on devices. The crate may depend on the
//! compiler, devices and weights, and knows neither text nor requests. It exists as the one place where
//! programs, memory and kernels meet, with debugging and profiling of what runs.
//!
//! The surface follows Modular MAX's `max.engine.InferenceSession`: `compile` needs neither
//! weights nor a device, `init` binds weights, `load` does both, and a [`Model`] executes;
//! `compile_module`, `init_all` and `load_all` do the same for several graphs with common weights.
//! Every async method has a blocking twin for native callers.
//!
//! 1. [`InferenceSession::new`] takes a [`Device`](wisp_device::Device), [`InferenceSession::builder`] several.
//! 2. [`InferenceSession::compile`] compiles a [`Graph`](wisp_graph::Graph) to a [`CompiledModel`].
//!    [`CompiledModel::load`] reads one from a file, and [`CompiledModule::compile`] compiles for any
//!    [target](wisp_compiler::Target).
//! 3. [`InferenceSession::init`] checks that all weights exist, uploads them, and allocates all memory of
//!    a run, for symbolic dimensions up to [`InitOptions::max_dims`].
//! 4. [`Model::execute`] runs the model once with tensors in host memory. [`Model::write`],
//!    [`Model::run`] and [`Model::read`] are its steps; results that are not read stay on the device.
//!
//! ```
//! use wisp_device::Device;
//! use wisp_graph::{Binary, DType, Graph};
//! use wisp_session::{InferenceSession, InitOptions};
//! use wisp_types::shape;
//! use wisp_weights::MemoryWeights;
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
//! assert_eq!(second.read_blocking::<f32>("twice", 2)?, [4.0, 8.0]);
//!
//! // An error lists all missing weights.
//! let weight = graph.weight("scale", wisp_weights::Encoding::F32, shape![2u64]);
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
//! The weights of a [`Model`] can be replaced ([`Model::reload`]) and freed ([`Model::release`]). Runs of one
//! shape can be prepared once ([`Model::capture`], [`Model::replay`]). A [`Tensor`] is in host memory or on a
//! device; [`Tensor::to`] copies it.
//!
//! A session has one or more devices, and always the host ([`InferenceSession::builder`]). A graph runs
//! on one of them ([`InferenceSession::on`]), or in stages on several ([`InferenceSession::load_split`]):
//!
//! ```
//! use wisp_device::Device;
//! use wisp_graph::{DType, Graph, Unary};
//! use wisp_session::{InferenceSession, InitOptions, Tensor};
//! use wisp_types::shape;
//! use wisp_weights::MemoryWeights;
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
//! // The result of the first model stays on its device until the second one reads it.
//! let x = Tensor::f32(&[2], &[16.0, 81.0]).ok_or("two numbers")?;
//! let root = first.execute_on_device_blocking(&[&x])?;
//! let fourth = second.execute_blocking(&[&root[0]])?;
//! assert_eq!(fourth[0].as_f32(), Some(&[2.0, 3.0][..]));
//! # Ok(())
//! # }
//! ```

mod artefact;
mod bind;
mod builder;
mod capture;
mod compile;
mod compiled;
mod debug;
mod differences;
mod dims;
mod dispatches;
mod error;
mod execute;
mod extensions;
mod init;
mod init_options;
mod lifecycle;
mod model;
mod modules;
mod operations;
mod overwrite_flags;
mod params;
mod ports;
#[cfg(test)]
mod product;
mod profile;
mod profiler;
mod program_source;
mod recording;
mod run;
mod session;
mod split;
mod switches;
mod tensor;
mod times;
mod tune;
pub mod tuning_file;
mod weights;

pub use artefact::ArtefactError;
pub use builder::{SessionBuilder, SessionDevice};
pub use compiled::{CompiledModel, CompiledModule};
pub use debug::{AssertLevel, DebugConfig, DebugError, LogLevel, PrintOptions, PrintStyle};
pub use dims::Dims;
pub use error::SessionError;
pub use init_options::{InitOptions, OnProgress};
pub use model::Model;
pub use profile::{ProfileRow, Span, TimingReport, Work};
pub use profiler::{GpuProfiling, Profiler};
pub use session::InferenceSession;
pub use split::SplitModel;
pub use tensor::Tensor;
pub use times::StartTimes;
pub use tune::{OnTuning, Ratio, TunePoint, TuneReport, TuneVariant, Tuner};
pub use wisp_compiler::{Precision, SplitKReductionPrecision, Switches, Tuning};

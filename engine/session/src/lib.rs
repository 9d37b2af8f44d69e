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
mod params;
mod ports;
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
mod weights;

pub use artefact::ArtefactError;
pub use builder::{SessionBuilder, SessionDevice};
pub use compiled::{CompiledModel, CompiledModule};
pub use debug::{AssertLevel, DebugConfig, DebugError, LogLevel, PrintOptions, PrintStyle};
pub use dims::Dims;
pub use error::SessionError;
pub use init_options::InitOptions;
pub use model::Model;
pub use profile::{ProfileRow, Span, TimingReport, Work};
pub use profiler::{GpuProfiling, Profiler};
pub use session::InferenceSession;
pub use split::SplitModel;
pub use tensor::Tensor;
pub use times::StartTimes;
pub use wisp_compiler::{SplitKReductionPrecision, Switches};

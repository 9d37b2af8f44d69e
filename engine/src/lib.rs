//! Runs language models locally: load a GGUF or safetensors model, then generate, chat or embed, on any GPU or on the
//! CPU.
//!
//! The crate is not on crates.io yet:
//!
//! ```toml
//! [dependencies]
//! wisp-engine = { git = "https://github.com/wisp-engine/wisp", features = ["hub"] }
//! ```
//!
//! # Generating text
//!
//! ```no_run
//! use wisp_engine::{Event, Model};
//!
//! # fn main() -> Result<(), wisp_engine::Error> {
//! // A GGUF file or a folder in Hugging Face's layout; with the feature `hub`, a repository's name.
//! let model = Model::load("model.gguf")?;
//! for event in model.generate("Once upon a time").max_tokens(16) {
//!     if let Event::Text(text) = event? {
//!         print!("{text}");
//!     }
//! }
//! let answer = model.generate("The end").temperature(0.8).seed(7).complete()?;
//! println!("{}", answer.text);
//! # Ok(())
//! # }
//! ```
//!
//! # Chatting
//!
//! A [`Chat`] keeps the history of a conversation, and formats it with the model's template:
//!
//! ```no_run
//! # use wisp_engine::{Event, Model};
//! # fn main() -> Result<(), wisp_engine::Error> {
//! let model = Model::load("model.gguf")?;
//! let mut chat = model.chat().system("Answer in one sentence.");
//! for question in ["Why is the sky blue?", "And at sunset?"] {
//!     for event in chat.send(question) {
//!         if let Event::Text(text) = event? {
//!             print!("{text}");
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Settings
//!
//! [`Model::builder`] takes the device, the length of the context (by default the model's own, at most
//! [`DEFAULT_CONTEXT_LENGTH`]), the number of parallel sequences, and a folder for compiled programs; without the
//! folder, every load compiles the model again:
//!
//! ```no_run
//! # use wisp_engine::{Model, files::DiskCache};
//! # fn main() -> Result<(), wisp_engine::Error> {
//! let model = Model::builder("model.gguf")
//!     .device("vulkan")?
//!     .context_length(8192)
//!     .compile_cache(DiskCache::new("cache"))
//!     .load()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//!
//! Every function returns an [`Error`], which can be matched on, such as [`Error::ContextFull`]. [`Error::remedies`]
//! returns what may resolve one as values of [`Remedy`], for a program that offers them to its users.
//!
//! # The layers
//!
//! The layers below are modules of this crate, so that a program needs no other dependency. From top to bottom, each
//! depends only on those below it:
//!
//! - [`pipelines`] turns a checkpoint into graphs and runs them for many requests at once: tokenizer,
//!   chat template, architectures, KV cache, scheduler, sampling.
//! - [`session`] compiles graphs, loads their weights and runs them.
//! - [`compiler`] compiles a graph to a program, without weights and without a device.
//! - [`graph`] describes the computation, with custom ops if needed ([`extension`]); [`weights`] reads
//!   checkpoints.
//! - [`device`] runs kernels: on GPUs through wgpu, on the host CPU as their twins in Rust.
//!
//! # A graph of your own
//!
//! This graph is built, compiled for another machine, saved, loaded, and run here:
//!
//! ```
//! use wisp_engine::compiler::Target;
//! use wisp_engine::device::Device;
//! use wisp_engine::graph::{Activation, DType, Graph, Map};
//! use wisp_engine::session::{CompiledModule, InferenceSession, InitOptions, Tensor};
//! use wisp_engine::shape;
//! use wisp_engine::weights::{Encoding, MemoryWeights};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The computation: weights are referred to by name, and the batch may have any size.
//! let mut graph = Graph::new("layer");
//! let x = graph.input("x", DType::F32, shape!["batch", 2u64]);
//! let weight = graph.weight("weight", Encoding::F32, shape![3u64, 2u64]);
//! let bias = graph.weight("bias", Encoding::F32, shape![3u64]);
//! let y = graph.linear(x, weight, Some(bias))?;
//! let y = graph.map(y, Map::Activation(Activation::Relu))?;
//! graph.output("y", y);
//!
//! // Compile it for a Mac that need not be present, and ship these bytes with the weights.
//! let shipped = CompiledModule::compile(&[graph], &Target::named("metal")?)?.to_bytes()?;
//!
//! // On the target machine (the host runs programs that are compiled for any target):
//! let compiled = CompiledModule::from_bytes(&shipped)?;
//! let mut weights = MemoryWeights::default();
//! weights.insert("weight", &[3, 2], &[1.0, 0.0, 0.0, 1.0, -1.0, -1.0])?;
//! weights.insert("bias", &[3], &[0.0, 0.5, 1.0])?;
//! let session = InferenceSession::new(Device::host(0)?);
//! let options = InitOptions { max_dims: [("batch".to_string(), 16)].into(), ..Default::default() };
//! let model = session.init_blocking(&compiled.models()[0], &weights, options)?;
//! let x = Tensor::f32(&[1, 2], &[2.0, 3.0]).ok_or("two numbers")?;
//! let outputs = model.execute_blocking(&[&x])?;
//! assert_eq!(outputs[0].as_f32(), Some(&[2.0, 3.5, 0.0][..]));
//! # Ok(())
//! # }
//! ```
//!
//! # A custom op
//!
//! A kernel in WGSL with a declaration of its operands and results is an op like the built-in ones; see
//! [`extension`] for the rules:
//!
//! ```
//! use wisp_engine::{
//!     device::Device,
//!     extension::{Extensions, Param},
//!     graph::{DType, Graph},
//!     session::{InferenceSession, InitOptions, Tensor},
//!     shape,
//!     weights::MemoryWeights,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let declaration = r#"
//!     name = "axpy"
//!     workgroup_size = [64, 1, 1]
//!     workgroups = ["ceil_div(x.len, 64)"]
//!     inputs = [{ name = "x", dtype = "f32" }, { name = "y", dtype = "f32" }]
//!     outputs = [{ name = "out", dtype = "f32", like = "x" }]
//!     params = [{ name = "a", dtype = "f32" }]
//! "#;
//! let kernel = "
//! @compute @workgroup_size(64)
//! fn main(@builtin(global_invocation_id) id: vec3<u32>) {
//!     if id.x < params.x_len {
//!         out[id.x] = params.a * x[id.x] + y[id.x];
//!     }
//! }";
//! // The host runs no WGSL: there an op needs a twin in Rust.
//! let extensions = Extensions::from_source(declaration, kernel)?.with_twin("axpy", |args| {
//!     let [len, _, _, a]: [u32; 4] = args.params()?; // x_len, y_len, out_len, a
//!     let (x, y): (&[f32], &[f32]) = (args.read(1, len as usize)?, args.read(2, len as usize)?);
//!     let out: &mut [f32] = args.write(3, len as usize)?;
//!     for (i, out) in out.iter_mut().enumerate() {
//!         *out = f32::from_bits(a) * x[i] + y[i];
//!     }
//!     Ok(())
//! })?;
//!
//! let mut graph = Graph::new("custom");
//! graph.use_extensions(&extensions)?;
//! let x = graph.input("x", DType::F32, shape!["n"]);
//! let y = graph.input("y", DType::F32, shape!["n"]);
//! let out = graph.custom("axpy", &[x, y], &[("a", Param::F32(2.0))])?[0];
//! graph.output("out", out);
//!
//! let session = InferenceSession::new(Device::host(1)?).with_extensions(extensions);
//! let options = InitOptions { max_dims: [("n".to_string(), 8)].into(), ..Default::default() };
//! let model = session.load_blocking(&graph, &MemoryWeights::default(), options)?;
//! let [x, y] = [[1.0, 2.0], [10.0, 20.0]].map(|values| Tensor::f32(&[2], &values));
//! let inputs = [&x.ok_or("two")?, &y.ok_or("two")?];
//! let outputs = model.execute_blocking(&inputs)?;
//! assert_eq!(outputs[0].as_f32(), Some(&[12.0, 24.0][..]));
//! # Ok(())
//! # }
//! ```
//!
//! The examples contain larger graphs: an image classifier with weights trained in PyTorch
//! (`cargo run -p wisp-engine --example image_classifier`), and a BERT of any size
//! (`--example bert_encoder`).
//!
//! # Features
//!
//! | feature | default | |
//! |---|---|---|
//! | `wgpu` | yes | runs kernels on GPUs: Vulkan, Metal, DX12, OpenGL, and the browser's WebGPU |
//! | `cuda` | no | runs kernels on NVIDIA's GPUs through CUDA, whose libraries are found at run time; native only |
//! | `hub` | no | opens models of Hugging Face's hub by name; native only |
//! | `targets` | no | checks a program against GPUs that are not attached, by translating its kernels to their shader languages; native only |
//! | `candle` | no | runs architectures that Wisp lacks with Hugging Face's candle on the host CPU; native only |
//! | `schemars` | no | `Generate::json`: generates values of types, by their JSON Schemas |
//! | `faults` | no | devices that fail when a test says so |
//!
//! Without `wgpu` and `cuda` the only device is the host CPU.
//!
//! # Async and blocking
//!
//! All functions that wait for a model or a device are async, because a browser cannot block. Native builds also have
//! blocking versions of them. What reads files or computes on the caller's thread is not async: opening files, rendering
//! and tokenizing prompts, and compiling constraints. A task that must not wait for these, such as for a prompt of
//! megabytes, leaves them to a thread for blocking work.

mod adapters;
mod builder;
mod conversation;
mod embed;
mod encoder_worker;
mod error;
mod events;
mod generate;
mod limits;
mod load;
mod logits;
mod model;
mod notes;
mod open_model;
mod rerank;
mod structured;
mod timings;
mod worker;

pub use builder::{DEFAULT_CONTEXT_LENGTH, LoadProgress, ModelBuilder, NoteKind};
pub use conversation::{Answer, Chat};
pub use embed::Embedder;
pub use error::Error;
#[cfg(not(target_arch = "wasm32"))]
pub use events::BlockingEvents;
pub use events::{Canceller, Completion, Event, Events, Usage};
pub use generate::Generate;
pub use model::{Model, ModelInfo};
pub use open_model::OpenModel;
pub use rerank::Reranker;
#[cfg(feature = "schemars")]
pub use schemars;
pub use serde_json;
pub use timings::RequestTimings;
pub use wisp_pipelines::{
    Embeddings, EndingToken, FinishReason, KvCacheFormat, LayerEmbeddingsPlacement, Pooling,
    Relevance, Remedy, SamplingDefaults, SamplingParams, SupportedEncoding, TokenScore,
    Utilization, chat, chat_template::Message, grammar, tools,
};
pub use wisp_session::Precision;

pub use wisp_compiler as compiler;
/// Devices: memory, kernels and submissions.
pub mod device {
    pub use wisp_device::*;
    /// The host device: twins of all kernels in Rust.
    pub use wisp_host as host;
}
#[cfg(not(target_arch = "wasm32"))]
pub use wisp_files as files;
pub use wisp_graph::{self as graph, extension};
pub use wisp_pipelines as pipelines;
pub use wisp_session as session;
pub use wisp_types::{self as types, shape};
pub use wisp_weights as weights;

//! Graphs: typed values with symbolic dimensions, the ops between them, one file each, and custom ops. The
//! crate may depend on the kernels' tables and parameter structs, which ops are lowered to, but on no
//! device, checkpoint or compiler. It exists so that a computation can be described, checked and shipped
//! as data.
//!
//! A [`Graph`] says what to compute and nothing of how: it needs neither weights (it names them)
//! nor a device. Nodes run in the order in which they were added, which is what gives ops that
//! write buffers (a KV cache, a sampler's state) their meaning.
//!
//! A decoder's graph is built by `pipelines`. One of your own is built by the methods of [`Graph`], each
//! of which adds an op or several: [`Graph::linear`] by weights of any encoding, [`Graph::conv2d`],
//! [`Graph::attention`], [`Graph::binary`] with NumPy's repetition of shapes, and so on. What does not
//! fit is refused where it is added, by an error that names the op and its operands:
//!
//! ```
//! use wisp_graph::{Binary, DType, Graph, Reduction, Unary, shape};
//!
//! // How far each of some points is from the origin.
//! let mut graph = Graph::new("distance");
//! let points = graph.input("points", DType::F32, shape!["n", 3u64]);
//! let squares = graph.binary(Binary::Mul, points, points)?;
//! let sum = graph.reduce(Reduction::Sum, squares, 1)?;
//! let root = graph.unary(Unary::Sqrt, sum)?;
//! graph.output("distance", root);
//! assert_eq!(graph.value(root).shape.to_string(), "[n]");
//!
//! let error = graph.matmul(points, points).unwrap_err().to_string();
//! assert_eq!(error, "matmul: a has 3 columns, but b has n rows (points: f32[n, 3], points: f32[n, 3])");
//! # Ok::<(), wisp_graph::GraphError>(())
//! ```
//!
//! # Values
//!
//! A value is an input, a [weight](Graph::weight) of any [`Encoding`](wisp_types::Encoding), numbers of the graph's own
//! ([`Graph::constant`], [`Graph::scalar`]), memory that outlives a run ([`Graph::buffer`]), or what an op
//! makes. Its elements are `f32` or `u32`; truths are `u32`, 1 or 0. A dimension is a number, a name
//! whose size each run gives, or the sum of such, which is what [`Graph::concat`] makes of them:
//!
//! ```
//! use wisp_graph::{DType, Graph, shape};
//!
//! let mut graph = Graph::new("remember");
//! let past = graph.input("past", DType::F32, shape!["past", 8u64]);
//! let new = graph.input("new", DType::F32, shape!["new", 8u64]);
//! let all = graph.concat(&[past, new], 0)?;
//! assert_eq!(graph.value(all).shape.to_string(), "[new + past, 8]");
//! # Ok::<(), wisp_graph::GraphError>(())
//! ```
//!
//! # Ops
//!
//! | | |
//! |---|---|
//! | products | [`linear`](Graph::linear) (of weights in any encoding), [`matmul`](Graph::matmul), [`matmul_transposed`](Graph::matmul_transposed), [`conv1d`](Graph::conv1d), [`conv2d`](Graph::conv2d), [`attention`](Graph::attention) |
//! | of each element | [`unary`](Graph::unary), [`binary`](Graph::binary) (arithmetic, comparisons, logic), [`select`](Graph::select), [`map`](Graph::map) (activations), [`cast`](Graph::cast) |
//! | norms | [`layer_norm`](Graph::layer_norm), [`rms_norm`](Graph::rms_norm), [`batch_norm`](Graph::batch_norm), [`softmax`](Graph::softmax) |
//! | of many, one | [`reduce`](Graph::reduce), [`argmax`](Graph::argmax), [`top_k`](Graph::top_k), [`max_pool2d`](Graph::max_pool2d), [`avg_pool2d`](Graph::avg_pool2d), [`global_avg_pool`](Graph::global_avg_pool) |
//! | by numbers | [`embed`](Graph::embed), [`gather`](Graph::gather), [`scatter`](Graph::scatter) |
//! | shapes | [`reshape`](Graph::reshape), [`permute`](Graph::permute), [`slice`](Graph::slice), [`slice_like`](Graph::slice_like), [`concat`](Graph::concat), [`pad`](Graph::pad) |
//! | positions | [`rope`](Graph::rope) |
//!
//! [`Graph::add`] adds any other [`Op`]: those of a decoder over a paged KV cache are among them.
//!
//! # Looking at a graph
//!
//! A graph prints as text, one line a value or op, and [`Graph::to_dot`] draws it:
//!
//! ```
//! # use wisp_graph::{DType, Graph, Unary, shape};
//! # let mut graph = Graph::new("roots");
//! # let x = graph.input("x", DType::F32, shape!["n"]);
//! # let y = graph.unary(Unary::Sqrt, x)?;
//! # graph.output("y", y);
//! assert_eq!(graph.to_string(), "\
//! graph roots {
//!   input x: f32[n]
//!   sqrt.0: f32[n] = sqrt(x)
//!   output y = sqrt.0
//! }");
//! # Ok::<(), wisp_graph::GraphError>(())
//! ```

mod check;
mod composed;
mod custom;
mod display;
mod dot;
mod error;
pub mod extension;
mod graph;
#[doc(hidden)]
pub mod lowering;
mod module;
pub mod ops;
mod split;
mod value;

pub use composed::PoolSpec;
pub use error::{GraphError, OpProblem};
pub use graph::{Graph, Node};
pub use module::{DuplicateGraph, Module};
pub use ops::{
    Activation, AttentionSpec, Binary, ConvSpec, HeadSpec, Map, NormKind, NormSpec, Op, PagedCache,
    Reduction, RopeSpec, Unary, serial_recurrence_tokens,
};
pub use split::{Import, Split, SplitError, Stage};
pub use value::{MAX_RANK, TensorType, Value, ValueId, ValueKind};
pub use wisp_shaders::CacheFormat;
pub use wisp_types::{DType, Dim, DimSum, Shape, shape};

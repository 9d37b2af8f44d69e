//! Graphs: typed values with symbolic dimensions, and the ops between them.
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
//! use wisp_engine::graph::{Binary, DType, Graph, Reduction};
//! use wisp_engine::{shape, weights::MemoryWeights};
//! use wisp_engine::{device::Device, session::{InferenceSession, InitOptions}};
//!
//! // How far each of some points is from the origin.
//! let mut graph = Graph::new("distance");
//! let points = graph.input("points", DType::F32, shape!["n", 3u64]);
//! let squares = graph.binary(Binary::Mul, points, points)?;
//! let sum = graph.reduce(Reduction::Sum, squares, 1)?;
//! let root = graph.unary(wisp_engine::graph::Unary::Sqrt, sum)?;
//! graph.output("distance", root);
//! let error = graph.matmul(points, points).unwrap_err().to_string();
//! assert_eq!(error, "matmul: a has 3 columns, b n rows (points: f32[n, 3], points: f32[n, 3])");
//!
//! // On the host here, on any GPU or in a browser just as well.
//! let session = InferenceSession::new(Device::host(0)?);
//! let compiled = session.compile(&graph)?;
//! let options = InitOptions { max_dims: [("n".to_string(), 8)].into(), ..Default::default() };
//! let model = session.init_blocking(&compiled, &MemoryWeights::default(), options)?;
//! model.write("points", &[3.0f32, 4.0, 0.0, 1.0, 2.0, 2.0])?;
//! model.run(&model.dims(&[("n", 2)])?)?;
//! let distances: Vec<f32> = pollster::block_on(model.read("distance", 2))?;
//! assert_eq!(distances, [5.0, 3.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Values
//!
//! A value is an input, a [weight](Graph::weight) of any [`Encoding`], numbers of the graph's own
//! ([`Graph::constant`], [`Graph::scalar`]), memory that outlives a run ([`Graph::buffer`]), or what an op
//! makes. Its elements are `f32` or `u32`; truths are `u32`, 1 or 0. A dimension is a number, a name
//! whose size each run gives, or the sum of such, which is what [`Graph::concat`] makes of them:
//!
//! ```
//! use wisp_engine::{graph::{DType, Graph}, shape};
//!
//! let mut graph = Graph::new("remember");
//! let past = graph.input("past", DType::F32, shape!["past", 8u64]);
//! let new = graph.input("new", DType::F32, shape!["new", 8u64]);
//! let all = graph.concat(&[past, new], 0)?;
//! assert_eq!(graph.value(all).shape.to_string(), "[new + past, 8]");
//! # Ok::<(), wisp_engine::graph::GraphError>(())
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
//! | by numbers | [`embedding`](Graph::embedding), [`gather`](Graph::gather), [`scatter`](Graph::scatter) |
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
//! # use wisp_engine::{graph::{DType, Graph, Unary}, shape};
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
//! # Ok::<(), wisp_engine::graph::GraphError>(())
//! ```

mod build;
mod check;
mod custom;
mod dot;
pub mod extension;
mod layers;
mod module;
mod op;
mod split;
mod tensor;

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};

use crate::extension::Extension;
use wisp_types::Encoding;

pub use custom::Custom;
pub use layers::PoolSpec;
pub use module::{DuplicateGraph, Module};
pub use op::{Activation, AttentionSpec, HeadSpec, Map, NormKind, NormSpec, Op, RopeSpec};
pub use split::{Import, Split, SplitError, Stage};
pub use tensor::{Axes, Binary, ConvSpec, MAX_RANK, Reduction, TensorOp, Unary};
pub use wisp_shaders::CacheFormat;
pub use wisp_types::{DType, Dim, DimSum, Shape, shape};

/// A value of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ValueId(pub u32);

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueKind {
    /// Written by the caller before a run.
    Input,
    /// Memory that outlives a run and that ops may write: a KV cache, a sampler's state.
    Buffer,
    /// A tensor of the checkpoint, by its name.
    Weight(Encoding),
    /// The result of a node.
    Node,
    /// Numbers of the graph's own, by their index.
    Constant(u32),
    /// Another value, which is no view, in another shape.
    View(ValueId),
}

/// What a graph knows of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// Its name: unique among inputs and buffers, and among weights.
    pub name: String,
    /// Its elements (of a weight: what they are after decoding).
    pub dtype: DType,
    /// Its shape, outermost dimension first.
    pub shape: Shape,
    /// Where it comes from.
    pub kind: ValueKind,
}

/// One op and the values it reads and makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// What it reads, and the buffers it writes.
    pub inputs: Vec<ValueId>,
    /// What it makes.
    pub outputs: Vec<ValueId>,
}

/// Occurs when an op is added whose operands do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op}: {problem} ({operands})")]
pub struct GraphError {
    /// The op.
    pub op: Cow<'static, str>,
    /// What does not fit.
    pub problem: String,
    /// The operands' names and shapes.
    pub operands: String,
}

/// A computation, as data. One that is read from a file is checked: it is an error of its format if it
/// has what no op takes or makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "check::Unchecked")]
pub struct Graph {
    /// The graph's name.
    pub name: String,
    pub values: Vec<Value>,
    pub nodes: Vec<Node>,
    pub outputs: Vec<(String, ValueId)>,
    pub constants: Vec<Vec<u32>>,
    /// The ops that [`Op::Custom`] can be.
    pub extensions: Vec<Extension>,
    /// What the nodes of custom ops do, by their number.
    pub customs: Vec<Custom>,
    /// What is printed, by [`Op::Print`]'s number.
    pub labels: Vec<String>,
}

impl Graph {
    /// An empty graph.
    pub fn new(name: &str) -> Graph {
        Graph {
            name: name.into(),
            values: Vec::new(),
            nodes: Vec::new(),
            outputs: Vec::new(),
            constants: Vec::new(),
            extensions: Vec::new(),
            customs: Vec::new(),
            labels: Vec::new(),
        }
    }

    fn add_value(&mut self, name: String, dtype: DType, shape: Shape, kind: ValueKind) -> ValueId {
        self.values.push(Value {
            name,
            dtype,
            shape,
            kind,
        });
        ValueId(self.values.len() as u32 - 1)
    }

    /// A value that the caller writes before each run.
    pub fn input(&mut self, name: &str, dtype: DType, shape: Shape) -> ValueId {
        self.add_value(name.into(), dtype, shape, ValueKind::Input)
    }

    /// Memory that outlives a run and that ops may write.
    pub fn buffer(&mut self, name: &str, dtype: DType, shape: Shape) -> ValueId {
        self.add_value(name.into(), dtype, shape, ValueKind::Buffer)
    }

    /// A tensor of the checkpoint. Naming it twice gives the same value.
    pub fn weight(&mut self, name: &str, encoding: Encoding, shape: Shape) -> ValueId {
        let same = |value: &Value| {
            let is_weight = value.kind == ValueKind::Weight(encoding);
            is_weight && value.name == name && value.shape == shape
        };
        match self.values.iter().position(same) {
            Some(i) => ValueId(i as u32),
            None => self.add_value(name.into(), DType::F32, shape, ValueKind::Weight(encoding)),
        }
    }

    /// What the graph knows of a value.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    /// Every value: inputs, buffers, weights and results.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The nodes in the order in which they run.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The outputs with their names.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, ValueId)> {
        self.outputs.iter().map(|(name, id)| (name.as_str(), *id))
    }

    /// Makes a value readable after a run, under a name.
    pub fn output(&mut self, name: &str, value: ValueId) {
        self.outputs.push((name.into(), value));
    }

    /// Adds an op and returns its result (for an op that only writes buffers, its first operand).
    ///
    /// # Errors
    ///
    /// If the operands' number, types or shapes do not fit the op; the error names them.
    pub fn add(&mut self, op: Op, inputs: &[ValueId]) -> Result<ValueId, GraphError> {
        let results = self.add_all(op, inputs)?;
        let result = results.first().or(inputs.first()).copied();
        // PROOF: `infer` refuses a call without operands, so there is a first one.
        Ok(result.expect("an op has operands"))
    }

    /// Adds an op and returns all its results.
    ///
    /// # Errors
    ///
    /// As [`Self::add`].
    pub fn add_all(&mut self, op: Op, inputs: &[ValueId]) -> Result<Vec<ValueId>, GraphError> {
        let operands: Vec<&Value> = inputs.iter().map(|id| self.value(*id)).collect();
        let outputs = op
            .infer(&operands)
            .map_err(|problem| self.error(op.name(), problem, inputs))?;
        Ok(self.push_node(op.name(), op, inputs, outputs))
    }

    /// Adds a node whose operands fit; returns its results.
    fn push_node(
        &mut self,
        name: &str,
        op: Op,
        inputs: &[ValueId],
        outputs: Vec<(DType, Shape)>,
    ) -> Vec<ValueId> {
        let node = self.nodes.len();
        let outputs: Vec<ValueId> = outputs
            .into_iter()
            .map(|(dtype, shape)| {
                self.add_value(format!("{name}.{node}"), dtype, shape, ValueKind::Node)
            })
            .collect();
        self.nodes.push(Node {
            op,
            inputs: inputs.to_vec(),
            outputs: outputs.clone(),
        });
        outputs
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |ids: &[ValueId]| {
            ids.iter()
                .map(|id| self.value(*id).name.clone())
                .collect::<Vec<_>>()
                .join(", ")
        };
        writeln!(f, "graph {} {{", self.name)?;
        for value in &self.values {
            let kind = match &value.kind {
                ValueKind::Input => "input".to_string(),
                ValueKind::Buffer => "buffer".to_string(),
                ValueKind::Weight(encoding) => format!("weight {encoding}"),
                ValueKind::Constant(_) => "constant".to_string(),
                ValueKind::View(of) => format!("view of {}", self.value(*of).name),
                ValueKind::Node => continue,
            };
            writeln!(f, "  {kind} {}: {}{}", value.name, value.dtype, value.shape)?;
        }
        for node in &self.nodes {
            let results: Vec<String> = node
                .outputs
                .iter()
                .map(|id| {
                    format!(
                        "{}: {}{} = ",
                        self.value(*id).name,
                        self.value(*id).dtype,
                        self.value(*id).shape
                    )
                })
                .collect();
            writeln!(
                f,
                "  {}{}({})",
                results.join(""),
                self.op_name(node),
                list(&node.inputs)
            )?;
        }
        for (name, id) in &self.outputs {
            writeln!(f, "  output {name} = {}", self.value(*id).name)?;
        }
        f.write_str("}")
    }
}

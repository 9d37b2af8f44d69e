//! The graph: values and the nodes between them.

use serde::{Deserialize, Serialize};
use wisp_types::{DType, Encoding, Shape};

use crate::{
    error::{GraphError, OpProblem},
    extension::{CustomSettings, Extension},
    lowering::{GraphTables, NodeValues},
    ops::{Op, operands::expect_known_size},
    value::{TensorType, Value, ValueId, ValueKind, element_count},
};

/// One op with the values it reads and those it makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// What the node computes.
    pub op: Op,
    /// The operands: what the op reads, and the buffers it writes.
    pub inputs: Vec<ValueId>,
    /// The values that the op computes, in the op's order.
    pub outputs: Vec<ValueId>,
}

impl Node {
    /// Returns the node's values as lowerings take them.
    #[doc(hidden)]
    pub fn values(&self) -> NodeValues<'_> {
        NodeValues {
            inputs: &self.inputs,
            outputs: &self.outputs,
        }
    }
}

/// A computation as data: values and the nodes between them.
///
/// Nodes run in the order in which they were added. A graph that is deserialised is checked: it is a format
/// error if it contains anything that the methods could not have built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "crate::check::Unchecked")]
pub struct Graph {
    /// The name, unique among the graphs of a [`Module`](crate::Module): it stands in messages and
    /// profiles.
    pub name: String,
    pub(crate) values: Vec<Value>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) outputs: Vec<(String, ValueId)>,
    pub(crate) constants: Vec<Vec<u32>>,
    /// The custom ops that nodes can use.
    pub(crate) extensions: Vec<Extension>,
    /// The custom op and parameters of each [`Op::Custom`] node, by its index.
    pub(crate) customs: Vec<CustomSettings>,
    /// The label of each [`Op::Print`] node, by its index.
    pub(crate) labels: Vec<String>,
}

impl Graph {
    /// Returns an empty graph.
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

    pub(crate) fn add_value(
        &mut self,
        name: String,
        dtype: DType,
        shape: Shape,
        kind: ValueKind,
    ) -> ValueId {
        self.values.push(Value {
            name,
            dtype,
            shape,
            kind,
        });
        ValueId(self.values.len() as u32 - 1)
    }

    /// Adds a value that the caller writes before each run.
    pub fn input(&mut self, name: &str, dtype: DType, shape: Shape) -> ValueId {
        self.add_value(name.into(), dtype, shape, ValueKind::Input)
    }

    /// Adds memory that keeps its contents between runs and that ops may write.
    pub fn buffer(&mut self, name: &str, dtype: DType, shape: Shape) -> ValueId {
        self.add_value(name.into(), dtype, shape, ValueKind::Buffer)
    }

    /// Adds a tensor of the checkpoint. The same name, encoding and shape return the same value again. The
    /// shape must be fixed: ops refuse a weight with a symbolic dimension.
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

    fn add_constant(
        &mut self,
        dtype: DType,
        words: Vec<u32>,
        shape: Shape,
    ) -> Result<ValueId, GraphError> {
        if element_count(&shape) != (words.len() as u64, Vec::new()) {
            let problem = format!("{} numbers do not fill the shape {shape}", words.len());
            return Err(self.error("constant", OpProblem::Mismatch(problem), &[]));
        }
        let index = self.constants.len();
        self.constants.push(words);
        let kind = ValueKind::Constant(index as u32);
        Ok(self.add_value(format!("constant.{index}"), dtype, shape, kind))
    }

    /// Adds numbers that are stored in the graph, in row-major order.
    ///
    /// # Errors
    ///
    /// If the shape has another number of elements, or a symbolic dimension.
    pub fn constant(&mut self, values: &[f32], shape: Shape) -> Result<ValueId, GraphError> {
        let words = values.iter().map(|value| value.to_bits()).collect();
        self.add_constant(DType::F32, words, shape)
    }

    /// Adds unsigned integers that are stored in the graph, in row-major order.
    ///
    /// # Errors
    ///
    /// As [`Self::constant`].
    pub fn constant_u32(&mut self, values: &[u32], shape: Shape) -> Result<ValueId, GraphError> {
        self.add_constant(DType::U32, values.to_vec(), shape)
    }

    /// Adds a single number, of shape `[]`.
    pub fn scalar(&mut self, value: f32) -> ValueId {
        let index = self.constants.len();
        self.constants.push(vec![value.to_bits()]);
        let kind = ValueKind::Constant(index as u32);
        let name = format!("constant.{index}");
        self.add_value(name, DType::F32, Shape(Vec::new()), kind)
    }

    /// Returns the same elements, in the same order, in another shape. Nothing is computed or copied.
    ///
    /// # Errors
    ///
    /// If the shape has another number of elements, or `x` is a buffer, or a weight of symbolic size.
    pub fn reshape(&mut self, x: ValueId, shape: Shape) -> Result<ValueId, GraphError> {
        let value = self.value(x);
        expect_known_size(value).map_err(|problem| self.error("reshape", problem, &[x]))?;
        if element_count(&value.shape) != element_count(&shape) {
            let problem = format!(
                "{shape} must have as many elements as {}",
                value.tensor_type().shape
            );
            return Err(self.error("reshape", OpProblem::Mismatch(problem), &[x]));
        }
        // Ops write buffers, which would change a view of them unseen.
        if value.kind == ValueKind::Buffer {
            let expected = "an input, a weight, a constant or a result";
            let problem = OpProblem::operand("x", value, expected, value.kind.description());
            return Err(self.error("reshape", problem, &[x]));
        }
        let name = format!("reshape.{}", self.values.len());
        let (dtype, kind) = (value.dtype, ValueKind::View(self.storage(x)));
        Ok(self.add_value(name, dtype, shape, kind))
    }

    /// Makes a value readable after a run, under a name.
    pub fn output(&mut self, name: &str, value: ValueId) {
        self.outputs.push((name.into(), value));
    }

    /// Adds an op and returns its first result, or its first operand if it only writes buffers.
    ///
    /// # Errors
    ///
    /// If the operands' number, types or shapes do not fit the op; the error names them.
    pub fn add(&mut self, op: impl Into<Op>, inputs: &[ValueId]) -> Result<ValueId, GraphError> {
        let results = self.add_all(op, inputs)?;
        let result = results.first().or(inputs.first()).copied();
        // PROOF: every shape rule refuses a call without operands, so there is a first one.
        Ok(result.expect("an op has operands"))
    }

    /// Adds an op and returns all its results.
    ///
    /// # Errors
    ///
    /// As [`Self::add`].
    pub fn add_all(
        &mut self,
        op: impl Into<Op>,
        inputs: &[ValueId],
    ) -> Result<Vec<ValueId>, GraphError> {
        let op = op.into();
        let operands: Vec<&Value> = inputs.iter().map(|id| self.value(*id)).collect();
        let outputs = op
            .infer(&operands)
            .map_err(|problem| self.error(op.name(), problem, inputs))?;
        Ok(self.push_node(op.name(), op, inputs, outputs))
    }

    /// Adds an op that has two results.
    pub(crate) fn add_pair(
        &mut self,
        op: impl Into<Op>,
        inputs: &[ValueId],
    ) -> Result<[ValueId; 2], GraphError> {
        let op = op.into();
        match self.add_all(op, inputs)?[..] {
            [first, second] => Ok([first, second]),
            _ => {
                let problem = OpProblem::Settings("the op must have two results".into());
                Err(self.error(op.name(), problem, inputs))
            }
        }
    }

    /// Adds a node whose operands fit, and returns its results.
    pub(crate) fn push_node(
        &mut self,
        name: &str,
        op: Op,
        inputs: &[ValueId],
        outputs: Vec<TensorType>,
    ) -> Vec<ValueId> {
        let node = self.nodes.len();
        let outputs: Vec<ValueId> = outputs
            .into_iter()
            .map(|TensorType { dtype, shape }| {
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

    /// Returns the error of an op whose operands do not fit.
    pub(crate) fn error(
        &self,
        op: impl Into<std::borrow::Cow<'static, str>>,
        problem: OpProblem,
        operands: &[ValueId],
    ) -> GraphError {
        let operand = |id: &ValueId| {
            let value = self.value(*id);
            (value.name.clone(), value.tensor_type())
        };
        GraphError {
            op: op.into(),
            problem: Box::new(problem),
            operands: operands.iter().map(operand).collect(),
        }
    }
}

/// What a graph consists of.
impl Graph {
    /// Returns a value's name, type, shape and origin.
    ///
    /// # Panics
    ///
    /// If the id is of another, larger graph.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// Returns all values, by their ids' [indices](ValueId::index): inputs, buffers, weights, constants and
    /// results.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Returns the ids of all values, in order.
    pub fn value_ids(&self) -> impl Iterator<Item = ValueId> + use<> {
        (0..self.values.len() as u32).map(ValueId)
    }

    /// Returns the nodes in the order in which they run.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the outputs with their names.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, ValueId)> {
        self.outputs.iter().map(|(name, id)| (name.as_str(), *id))
    }

    /// Returns the numbers of each [constant](ValueKind::Constant) as 4-byte words, which hold `f32` or
    /// `u32` by the value's type.
    pub fn constants(&self) -> &[Vec<u32>] {
        &self.constants
    }

    /// Returns the custom op of a name.
    pub fn extension(&self, name: &str) -> Option<&Extension> {
        let mut all = self.extensions.iter();
        all.find(|extension| extension.declaration().name == name)
    }

    /// Returns the value whose memory a value shares: of a [view](ValueKind::View) the viewed value, of any
    /// other the value itself.
    pub fn storage(&self, id: ValueId) -> ValueId {
        match self.value(id).kind {
            ValueKind::View(of) => of,
            _ => id,
        }
    }
}

impl GraphTables for Graph {
    fn value(&self, id: ValueId) -> &Value {
        self.value(id)
    }

    fn label(&self, index: usize) -> Option<&str> {
        self.labels.get(index).map(String::as_str)
    }

    fn custom_settings(&self, index: usize) -> Option<(&Extension, &CustomSettings)> {
        let settings = self.customs.get(index)?;
        Some((self.extension(&settings.extension)?, settings))
    }
}

/// An unstable door for tests that forge graphs, which the methods and deserialisation refuse.
#[doc(hidden)]
impl Graph {
    pub fn values_mut(&mut self) -> &mut Vec<Value> {
        &mut self.values
    }

    pub fn nodes_mut(&mut self) -> &mut Vec<Node> {
        &mut self.nodes
    }
}

//! Splits a graph into stages at op boundaries; each stage is a graph.

use std::{collections::HashMap, ops::Range};

use crate::{
    graph::{Graph, Node},
    ops::Map,
    value::{Value, ValueId, ValueKind},
};

/// Why a graph cannot be split in the requested way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// Occurs when a stage is empty or has ops that the graph does not have.
    #[error("{graph} cannot have a stage of the ops {}..{}: it has the ops 0..{ops}", .stage.start, .stage.end)]
    Range {
        /// Name of the graph.
        graph: String,
        /// Indices of the stage's ops.
        stage: Range<usize>,
        /// The number of ops in the graph.
        ops: usize,
    },
    /// Occurs when some ops are in no stage.
    #[error("the ops {}..{} of {graph} are in no stage", .ops.start, .ops.end)]
    Gap {
        /// Name of the graph.
        graph: String,
        /// Indices of these ops.
        ops: Range<usize>,
    },
    /// Occurs when ops are in two stages, or stages are not in op order.
    #[error("the stage of the ops {}..{} of {graph} begins before the one before it ends, at {end}", .stage.start, .stage.end)]
    Overlap {
        /// Name of the graph.
        graph: String,
        /// Indices of the later stage's ops.
        stage: Range<usize>,
        /// The end of the stage before it.
        end: usize,
    },
    /// Occurs when two stages use the same buffer. A buffer's contents outlive a run, so it can belong
    /// to one stage only.
    #[error(
        "the buffer {buffer} of {graph} is used by {} (op {}) and by {} (op {}), which are in different stages: split elsewhere",
        .first.1, .first.0, .second.1, .second.0
    )]
    Buffer {
        /// Name of the graph.
        graph: String,
        /// Name of the buffer.
        buffer: String,
        /// Index and name of an op that uses it.
        first: (usize, Box<str>),
        /// Index and name of an op of a later stage that uses it.
        second: (usize, Box<str>),
    },
}

/// A graph in stages that run one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// The parts of the graph in the order in which they run.
    pub stages: Vec<Stage>,
    /// Names of the graph's inputs, in the graph's order.
    pub inputs: Vec<String>,
    /// Names of the graph's outputs in the graph's order, each with its stage.
    pub outputs: Vec<(String, usize)>,
}

/// A part of a graph as a graph of its own, with the inputs, buffers and weights that its ops use.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Name of the graph.
    pub graph: Graph,
    /// Inputs that come from earlier stages.
    pub imports: Vec<Import>,
}

/// An input of a stage that an earlier stage has as an output of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Name of the input and of the output.
    pub name: String,
    /// Index of the stage that computes it.
    pub from: usize,
}

impl Graph {
    /// Splits the graph into stages of consecutive ops. A value that an op of a later stage reads
    /// becomes an output of its own stage and an input of the later one.
    ///
    /// ```
    /// use wisp_graph::{Binary, DType, Graph, Unary, shape};
    ///
    /// let mut graph = Graph::new("test");
    /// let x = graph.input("x", DType::F32, shape!["n"]);
    /// let root = graph.unary(Unary::Sqrt, x)?;
    /// let sum = graph.binary(Binary::Add, x, root)?;
    /// graph.output("sum", sum);
    ///
    /// let split = graph.split(&[0..1, 1..2])?;
    /// assert_eq!(split.stages[1].imports[0].from, 0);
    /// assert_eq!(split.outputs, [("sum".to_string(), 1)]);
    /// let error = graph.split(&[0..1]).unwrap_err().to_string();
    /// assert_eq!(error, "the ops 1..2 of test are in no stage");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the stages do not cover all ops in order, or two of them use the same buffer.
    pub fn split(&self, stages: &[Range<usize>]) -> Result<Split, SplitError> {
        self.check_stages(stages)?;
        self.check_buffers(stages)?;
        let mut built: Vec<Builder<'_>> = Vec::with_capacity(stages.len());
        for ops in stages {
            let mut stage = Builder::new(self, stages, ops);
            self.nodes[ops.clone()]
                .iter()
                .for_each(|node| stage.node(node));
            built.push(stage);
        }
        let used =
            |built: &[Builder<'_>], id| built.iter().position(|one| one.known.contains_key(&id));
        // Inputs and buffers that no op uses belong to the first stage.
        for (i, value) in self.values.iter().enumerate() {
            let id = ValueId(i as u32);
            if matches!(value.kind, ValueKind::Input | ValueKind::Buffer)
                && used(&built, id).is_none()
            {
                built[0].value(id);
            }
        }
        let mut outputs = Vec::with_capacity(self.outputs.len());
        for (name, id) in &self.outputs {
            let storage = self.storage(*id);
            let producer = self.stage_of(stages, storage);
            let stage = producer.or(used(&built, storage)).unwrap_or(0);
            let id = built[stage].value(*id);
            built[stage].graph.output(name, id);
            outputs.push((name.clone(), stage));
        }
        for stage in 0..built.len() {
            for (id, import) in built[stage].imports.clone() {
                let from = &mut built[import.from];
                if !from
                    .graph
                    .outputs
                    .iter()
                    .any(|(name, _)| *name == import.name)
                {
                    let id = from.value(id);
                    from.graph.output(&import.name, id);
                }
            }
        }
        let inputs = self
            .values
            .iter()
            .filter(|value| value.kind == ValueKind::Input);
        Ok(Split {
            inputs: inputs.map(|value| value.name.clone()).collect(),
            outputs,
            stages: built.into_iter().map(Builder::finish).collect(),
        })
    }

    fn check_stages(&self, stages: &[Range<usize>]) -> Result<(), SplitError> {
        let (graph, ops) = (self.name.clone(), self.nodes.len());
        let mut end = 0;
        for stage in stages {
            let stage = stage.clone();
            if stage.is_empty() || stage.end > ops {
                return Err(SplitError::Range { graph, stage, ops });
            }
            if stage.start < end {
                return Err(SplitError::Overlap { graph, stage, end });
            }
            if stage.start > end {
                let ops = end..stage.start;
                return Err(SplitError::Gap { graph, ops });
            }
            end = stage.end;
        }
        match end == ops && !stages.is_empty() {
            true => Ok(()),
            false => Err(SplitError::Gap {
                graph,
                ops: end..ops,
            }),
        }
    }

    fn check_buffers(&self, stages: &[Range<usize>]) -> Result<(), SplitError> {
        let mut users: HashMap<ValueId, (usize, usize)> = HashMap::new();
        for (stage, ops) in stages.iter().enumerate() {
            for op in ops.clone() {
                let buffers = self.nodes[op].inputs.iter().copied();
                for id in buffers.filter(|id| self.value(*id).kind == ValueKind::Buffer) {
                    let (first, at) = *users.entry(id).or_insert((op, stage));
                    if at != stage {
                        let user = |op: usize| (op, self.op_name(&self.nodes[op]).into());
                        return Err(SplitError::Buffer {
                            graph: self.name.clone(),
                            buffer: self.value(id).name.clone(),
                            first: user(first),
                            second: user(op),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the stage of the op that computes a value.
    fn stage_of(&self, stages: &[Range<usize>], id: ValueId) -> Option<usize> {
        let producer = self
            .nodes
            .iter()
            .position(|node| node.outputs.contains(&id))?;
        stages.iter().position(|ops| ops.contains(&producer))
    }

    /// Returns a unique name under which stages pass a value on.
    fn handed_on(&self, id: ValueId) -> String {
        let mut name = format!("{}#{}", self.value(id).name, id.0);
        let taken = |name: &str| {
            let mut outputs = self.outputs.iter();
            self.values.iter().any(|value| value.name == name)
                || outputs.any(|(other, _)| other == name)
        };
        while taken(&name) {
            name.push('\'');
        }
        name
    }
}

/// A stage that is being built.
struct Builder<'a> {
    whole: &'a Graph,
    stages: &'a [Range<usize>],
    graph: Graph,
    /// Maps values of the whole graph to values of this stage.
    known: HashMap<ValueId, ValueId>,
    imports: Vec<(ValueId, Import)>,
}

impl<'a> Builder<'a> {
    fn new(whole: &'a Graph, stages: &'a [Range<usize>], ops: &Range<usize>) -> Builder<'a> {
        Builder {
            whole,
            stages,
            graph: Graph {
                // Custom ops refer to their extension and settings by index.
                extensions: whole.extensions.clone(),
                customs: whole.customs.clone(),
                labels: whole.labels.clone(),
                ..Graph::new(&format!("{}[{}..{}]", whole.name, ops.start, ops.end))
            },
            known: HashMap::new(),
            imports: Vec::new(),
        }
    }

    /// Returns the stage's value for a value of the whole graph, adding it if needed.
    fn value(&mut self, id: ValueId) -> ValueId {
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        let Value {
            mut name,
            dtype,
            shape,
            kind,
        } = self.whole.value(id).clone();
        let kind = match kind {
            ValueKind::View(of) => ValueKind::View(self.value(of)),
            ValueKind::Constant(place) => {
                let words = self.whole.constants[place as usize].clone();
                self.graph.constants.push(words);
                ValueKind::Constant(self.graph.constants.len() as u32 - 1)
            }
            ValueKind::Node => {
                name = self.whole.handed_on(id);
                // The value belongs to an earlier stage: nodes read only values that were computed
                // before them.
                let from = self.whole.stage_of(self.stages, id).unwrap_or(0);
                let import = Import {
                    name: name.clone(),
                    from,
                };
                self.imports.push((id, import));
                ValueKind::Input
            }
            kind => kind,
        };
        let here = self.graph.add_value(name, dtype, shape, kind);
        self.known.insert(id, here);
        here
    }

    fn node(&mut self, node: &Node) {
        let mut inputs: Vec<ValueId> = node.inputs.iter().map(|id| self.value(*id)).collect();
        // A value that an op overwrites must be computed in this stage.
        for input in &mut inputs[node.op.overwrites(node.inputs.len())] {
            let storage = self.graph.storage(*input);
            let name = &self.graph.value(storage).name;
            if self.imports.iter().any(|(_, import)| import.name == *name) {
                *input = self.copy(*input);
            }
        }
        let outputs = node.outputs.iter().map(|id| {
            let Value {
                name,
                dtype,
                shape,
                kind,
            } = self.whole.value(*id).clone();
            let here = self.graph.add_value(name, dtype, shape, kind);
            self.known.insert(*id, here);
            here
        });
        let outputs = outputs.collect();
        self.graph.nodes.push(Node {
            op: node.op,
            inputs,
            outputs,
        });
    }

    /// Adds a copy of a float value in memory of its own.
    fn copy(&mut self, id: ValueId) -> ValueId {
        let Value {
            name, dtype, shape, ..
        } = self.graph.value(id).clone();
        let copy = self
            .graph
            .add_value(format!("copy of {name}"), dtype, shape, ValueKind::Node);
        self.graph.nodes.push(Node {
            op: Map::Scale(1.0).into(),
            inputs: vec![id],
            outputs: vec![copy],
        });
        copy
    }

    fn finish(self) -> Stage {
        Stage {
            graph: self.graph,
            imports: self.imports.into_iter().map(|(_, import)| import).collect(),
        }
    }
}

//! Checks of a graph that comes from a file: whatever is done with a graph can be done with it.

use serde::Deserialize;

use crate::extension::{Extension, Param};
use crate::{
    error::OpProblem,
    graph::{Graph, Node},
    ops::{Op, Print, operands::expect_known_size},
    value::{TensorType, Value, ValueId, ValueKind, element_count},
};
use wisp_types::DType;

/// A graph as it is stored, not checked yet: its fields are [`Graph`]'s, in their order.
#[derive(Deserialize)]
#[serde(rename = "Graph")]
pub(super) struct Unchecked {
    name: String,
    values: Vec<Value>,
    nodes: Vec<Node>,
    outputs: Vec<(String, ValueId)>,
    constants: Vec<Vec<u32>>,
    extensions: Vec<Extension>,
    customs: Vec<crate::extension::CustomSettings>,
    labels: Vec<String>,
}

impl TryFrom<Unchecked> for Graph {
    type Error = String;

    fn try_from(stored: Unchecked) -> Result<Graph, String> {
        let graph = Graph {
            name: stored.name,
            values: stored.values,
            nodes: stored.nodes,
            outputs: stored.outputs,
            constants: stored.constants,
            extensions: stored.extensions,
            customs: stored.customs,
            labels: stored.labels,
        };
        match graph.check() {
            Ok(()) => Ok(graph),
            Err(problem) => Err(format!("the graph {:?}: {problem}", graph.name)),
        }
    }
}

impl Graph {
    fn check(&self) -> Result<(), String> {
        self.check_ids()?;
        for value in &self.values {
            self.check_value(value)?;
        }
        // Kernels that were checked stay in memory: not those of a graph that is refused anyway.
        for extension in &self.extensions {
            extension.check().map_err(|error| error.to_string())?;
        }
        self.check_order()
    }

    /// Checks that every value that is named is there.
    fn check_ids(&self) -> Result<(), String> {
        let nodes = self.nodes.iter();
        let used = nodes.flat_map(|node| node.inputs.iter().chain(&node.outputs));
        let viewed = self.values.iter().filter_map(|value| match &value.kind {
            ValueKind::View(of) => Some(of),
            _ => None,
        });
        let outputs = self.outputs.iter().map(|(_, id)| id);
        let len = self.values.len();
        match used
            .chain(viewed)
            .chain(outputs)
            .find(|id| id.0 as usize >= len)
        {
            None => Ok(()),
            Some(ValueId(id)) => Err(format!("it names value {id}, but has only {len}")),
        }
    }

    /// Checks the nodes, and that each result is made once, before it is read.
    fn check_order(&self) -> Result<(), String> {
        let is_there = |value: &Value| value.kind != ValueKind::Node;
        let mut made: Vec<bool> = self.values.iter().map(is_there).collect();
        let is_made = |made: &[bool], id: &ValueId| match made[self.storage(*id).0 as usize] {
            true => Ok(()),
            false => {
                let name = &self.value(*id).name;
                Err(format!("{name} is read before it is made"))
            }
        };
        for node in &self.nodes {
            let mut inputs = node.inputs.iter();
            inputs.try_for_each(|id| is_made(&made, id))?;
            self.check_node(node)?;
            for id in &node.outputs {
                if std::mem::replace(&mut made[id.0 as usize], true) {
                    let (value, op) = (&self.value(*id).name, self.op_name(node));
                    return Err(format!("{value} is there before {op} makes it"));
                }
            }
        }
        let mut outputs = self.outputs.iter();
        outputs.try_for_each(|(_, id)| is_made(&made, id))
    }

    fn check_value(&self, value: &Value) -> Result<(), String> {
        match value.kind {
            ValueKind::Constant(constant) => {
                let words = self
                    .constants
                    .get(constant as usize)
                    .map(|words| words.len());
                let wanted = words.map(|words| (words as u64, Vec::new()));
                if wanted != Some(element_count(&value.shape)) {
                    return Err(format!(
                        "the constant {} has not the numbers of {}",
                        value.name, value.shape
                    ));
                }
            }
            ValueKind::View(of) => {
                let of = self.value(of);
                let fits = value.dtype == of.dtype
                    && element_count(&value.shape) == element_count(&of.shape);
                if !fits || matches!(of.kind, ValueKind::View(_) | ValueKind::Buffer) {
                    return Err(format!("{} is no view of {}", value.name, of.name));
                }
            }
            ValueKind::Weight(_) if value.dtype != DType::F32 => {
                return Err(format!("the weight {} is not f32", value.name));
            }
            ValueKind::Weight(_) => {
                expect_known_size(value).map_err(|problem| problem.to_string())?;
            }
            ValueKind::Input | ValueKind::Buffer | ValueKind::Node => {}
        }
        Ok(())
    }

    /// Checks that a node takes its operands, and makes what it is said to make.
    fn check_node(&self, node: &Node) -> Result<(), String> {
        let name = self.op_name(node).to_string();
        let wrong = |problem| self.error(name.clone(), problem, &node.inputs).to_string();
        let settings = |problem: String| wrong(OpProblem::Settings(problem));
        let operands: Vec<&Value> = node.inputs.iter().map(|id| self.value(*id)).collect();
        let makes = match node.op {
            Op::Custom(_) => self.custom_makes(node),
            Op::Print(Print { label }) if label as usize >= self.labels.len() => {
                Err(OpProblem::Settings(format!("there is no label {label}")))
            }
            op => op.infer(&operands),
        };
        let makes = makes.map_err(wrong)?;
        let said = node.outputs.iter().map(|id| self.value(*id));
        let said: Vec<TensorType> = said.map(Value::tensor_type).collect();
        match makes == said {
            true => Ok(()),
            false => Err(settings("its results are not what it makes".into())),
        }
    }

    /// The types and shapes of a custom op's results.
    fn custom_makes(&self, node: &Node) -> Result<Vec<TensorType>, OpProblem> {
        let Some((extension, custom)) = self.custom_of(&node.op) else {
            let problem = "it is none of the graph's extensions".into();
            return Err(OpProblem::Settings(problem));
        };
        let names = extension.declaration().params.iter();
        let names = names.map(|param| param.name.as_str());
        let given: Vec<(&str, Param)> = names.zip(custom.params.iter().copied()).collect();
        let (fit, makes) = self.fit(extension, &node.inputs, &given)?;
        match fit.params.len() == custom.params.len() {
            true => Ok(makes),
            false => Err(OpProblem::Settings(format!(
                "it takes {} parameters, not {}",
                fit.params.len(),
                custom.params.len()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Binary, Graph};
    use wisp_types::{DType, shape};

    /// By the order of the fields too, where a format does not store their names.
    #[test]
    fn a_graph_is_read_as_it_was_stored() {
        let mut graph = Graph::new("stored");
        let x = graph.input("x", DType::F32, shape!["n"]);
        let two = graph.constant(&[2.0], shape![1u64]).unwrap();
        let y = graph.binary(Binary::Mul, x, two).unwrap();
        let y = graph.print(y, "y").unwrap();
        graph.output("y", y);
        let bytes = postcard::to_stdvec(&graph).unwrap();
        assert_eq!(postcard::from_bytes::<Graph>(&bytes).unwrap(), graph);
    }
}

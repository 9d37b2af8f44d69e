//! Messages about the differences between a compiled graph and another graph.

use wisp_compiler::{Matrix, Port, Program};
use wisp_graph::{Graph, Value, ValueKind};
use wisp_types::{Dim, Encoding};

/// The number of differences that a message lists.
const MAX_LISTED: usize = 4;

/// Differences between the inputs and weights of a program and of a graph.
pub(crate) fn differences(program: &Program, graph: &Graph) -> Vec<String> {
    let values = graph.values().iter();
    let mut differences: Vec<String> = values
        .filter_map(|value| difference(program, value))
        .collect();
    let named = |port: &&Port| !graph.values().iter().any(|value| value.name == port.name);
    let more = program.inputs.iter().filter(named);
    differences.extend(more.map(|port| format!("{} is no input here", port.name)));
    if differences.is_empty() {
        differences.push("its ops differ".into());
    }
    if differences.len() > MAX_LISTED {
        let more = differences.len() - MAX_LISTED;
        differences.truncate(MAX_LISTED);
        differences.push(format!("and {more} more"));
    }
    differences
}

fn difference(program: &Program, value: &Value) -> Option<String> {
    let (name, shape) = (&value.name, &value.shape);
    let encoding = match value.kind {
        ValueKind::Node | ValueKind::View(_) | ValueKind::Constant(_) => return None,
        ValueKind::Input | ValueKind::Buffer => {
            let port = program.inputs.iter().find(|port| port.name == *name);
            return match port {
                None => Some(format!("{name} is no input there")),
                Some(port) if port.shape == *shape && port.dtype == value.dtype => None,
                Some(port) => {
                    let (there, here) = (port.dtype, value.dtype);
                    Some(format!(
                        "{name} is {there}{}, here {here}{shape}",
                        port.shape
                    ))
                }
            };
        }
        ValueKind::Weight(encoding) => encoding,
    };
    let of = |matrix: &&Matrix| matrix.row_ranges.iter().any(|rows| rows.tensor == *name);
    if let Some(matrix) = program.matrices.iter().find(of) {
        let becomes = matrix.encoding == Encoding::F8_E4M3 && encoding.is_float();
        let same = (matrix.encoding == encoding.on_device() || becomes)
            && shape.cols() == Some(matrix.cols);
        let (there, cols) = (matrix.encoding, matrix.cols);
        return (!same)
            .then(|| format!("{name} is {there} with rows of {cols}, here {encoding}{shape}"));
    }
    let elements: Option<u64> = shape.0.iter().map(Dim::fixed).product();
    match program
        .vectors
        .iter()
        .find(|vector| vector.tensors.contains(name))
    {
        None => Some(format!("{name} is not read there")),
        Some(vector) if vector.tensors.len() > 1 || Some(vector.elements) == elements => None,
        Some(vector) => Some(format!(
            "{name} has {} elements, here {shape}",
            vector.elements
        )),
    }
}

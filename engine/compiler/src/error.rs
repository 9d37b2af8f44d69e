//! Why a graph cannot be compiled.

use std::collections::HashMap;

use wisp_graph::{Graph, Value, ValueKind, lowering::LoweringError};

/// Occurs when a graph cannot be compiled for a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// Occurs when one of the graph's ops cannot become kernel calls.
    #[error(transparent)]
    Op(#[from] LoweringError),
    /// Occurs when an op would overwrite a value that is still needed, or that is not the op's to overwrite.
    #[error("{op} overwrites {value}, which must be a result that nothing reads afterwards")]
    InPlace {
        /// The op's name, such as `rope`.
        op: &'static str,
        /// The name of the value that would be overwritten.
        value: String,
    },
    /// Occurs when the weights of a graph together have more bytes than any program may name.
    #[error("the weights of {graph} are together too large for any device")]
    Weights {
        /// The name of the graph.
        graph: String,
    },
    /// Occurs when two inputs or buffers of a graph, two of its weights or two of its outputs have one name.
    #[error(
        "{graph} has two {what} called {name:?}, {first} and {second}: give one of them another name"
    )]
    DuplicateName {
        /// The name of the graph.
        graph: String,
        /// "inputs or buffers", "weights" or "outputs".
        what: &'static str,
        /// The name that both have.
        name: String,
        /// The type and shape of the one.
        first: String,
        /// The type and shape of the other.
        second: String,
    },
}

/// Checks that names are unique among inputs and buffers, among weights, and among outputs.
pub(crate) fn check_names(graph: &Graph) -> Result<(), CompileError> {
    let values_of = |kinds: fn(&ValueKind) -> bool| {
        let values = graph.values().iter();
        let values = values.filter(move |value| kinds(&value.kind));
        values.map(|value| (value.name.as_str(), value))
    };
    let ports = values_of(|kind| matches!(kind, ValueKind::Input | ValueKind::Buffer));
    let weights = values_of(|kind| matches!(kind, ValueKind::Weight(_)));
    let outputs = graph.outputs().map(|(name, id)| (name, graph.value(id)));
    check_unique(graph, "inputs or buffers", ports)?;
    check_unique(graph, "weights", weights)?;
    check_unique(graph, "outputs", outputs)
}

fn check_unique<'a>(
    graph: &Graph,
    what: &'static str,
    named: impl Iterator<Item = (&'a str, &'a Value)>,
) -> Result<(), CompileError> {
    let mut known = HashMap::new();
    for (name, value) in named {
        if let Some(first) = known.insert(name, value) {
            return Err(CompileError::DuplicateName {
                graph: graph.name.clone(),
                what,
                name: name.into(),
                first: first.tensor_type().to_string(),
                second: value.tensor_type().to_string(),
            });
        }
    }
    Ok(())
}

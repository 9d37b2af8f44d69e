//! Invalid graphs are refused when an op is added or when the graph is compiled, with a message.

mod compiling;
mod decoder;
mod elementwise;
mod layers;
mod tensors;
mod weights;

use wisp_engine::{
    graph::{DType, Graph, GraphError, NormKind, NormSpec, Op, Shape, ValueId},
    weights::Encoding,
};

/// A graph for ops that are refused, with inputs, weights and buffers of any shape.
struct TestGraph(Graph);

impl TestGraph {
    fn new() -> TestGraph {
        TestGraph(Graph::new("test"))
    }

    fn f32(&mut self, shape: Shape) -> ValueId {
        let name = format!("x{}", self.0.values().len());
        self.0.input(&name, DType::F32, shape)
    }

    fn u32(&mut self, shape: Shape) -> ValueId {
        let name = format!("u{}", self.0.values().len());
        self.0.input(&name, DType::U32, shape)
    }

    fn weight(&mut self, shape: Shape) -> ValueId {
        let name = format!("w{}", self.0.values().len());
        self.0.weight(&name, Encoding::F32, shape)
    }

    fn buffer(&mut self, dtype: DType, shape: Shape) -> ValueId {
        let name = format!("b{}", self.0.values().len());
        self.0.buffer(&name, dtype, shape)
    }

    /// Asserts that an op is refused with a message, in which `$0`, `$1`, … stand for the operands' names.
    #[track_caller]
    fn assert_refused(&mut self, op: impl Into<Op>, operands: &[ValueId], expected: &str) {
        let error = self.0.add(op, operands).unwrap_err();
        self.assert_message(error, operands, expected);
    }

    /// Asserts that an error has the expected message followed by all operands, and that no node was added.
    #[track_caller]
    fn assert_message(&self, error: GraphError, operands: &[ValueId], expected: &str) {
        let mut message = expected.to_string();
        let mut shown = Vec::new();
        for (i, id) in operands.iter().enumerate() {
            let value = self.0.value(*id);
            message = message.replace(&format!("${i}"), &value.name);
            shown.push(format!("{}: {}{}", value.name, value.dtype, value.shape));
        }
        assert_eq!(
            error.to_string(),
            format!("{message} ({})", shown.join(", "))
        );
        assert!(self.0.nodes().is_empty(), "nothing was added");
    }
}

/// Asserts that a method of [`Graph`] fails with a message, as [`TestGraph::assert_refused`] does.
macro_rules! assert_error {
    ($b:ident, $method:ident($($argument:expr),*), $operands:expr, $message:expr) => {
        let error = $b.0.$method($($argument),*).unwrap_err();
        $b.assert_message(error, &$operands, $message);
    };
}
use assert_error;

const LAYER_NORM: NormSpec = NormSpec {
    kind: NormKind::Layer,
    eps: 1e-5,
    weight_offset: 0.0,
};

//! Fusion: several nodes of a graph become one step, which takes fewer kernel calls.
//!
//! A file each for a pattern and its lowering:
//! - [`rope_kv_write`]: three linear layers, perhaps norms of each head, rotary embedding and the write to
//!   the KV cache become a product with stacked weights and one kernel for the rest;
//! - [`gated`]: two linear layers and the gate over them become a product with stacked weights and the gate;
//! - [`add_norm`]: a sum and its norm become one kernel, which adds in place.
//!
//! The first two share [`stacked`]: linear layers of the same operand whose weights are stacked, with their
//! low-rank adapters.

mod add_norm;
mod gated;
mod rope_kv_write;
mod stacked;
mod uses;

use wisp_graph::{
    Graph, Node, ValueId,
    lowering::{LoweringError, OpLowering},
};

use uses::Uses;

/// Nodes that are lowered together.
pub(crate) trait FusedStep {
    /// Returns the step's name, for messages and profiles.
    fn name(&self) -> &'static str;

    /// Returns the values that the step reads.
    fn operands(&self) -> Vec<ValueId>;

    /// Lowers the step to kernel calls.
    fn lower(&self, op: &mut OpLowering<'_>) -> Result<(), LoweringError>;
}

/// A step of the fused graph.
pub(crate) enum Step {
    /// A single node.
    Node(Node),
    /// Several nodes.
    Fused(Box<dyn FusedStep>),
}

impl Step {
    /// Returns the values that the step reads.
    pub fn operands(&self) -> Vec<ValueId> {
        match self {
            Step::Node(node) => node.inputs.clone(),
            Step::Fused(step) => step.operands(),
        }
    }
}

/// A graph that is being fused: who makes and reads each value, and what becomes of each node.
struct Fusion<'a> {
    graph: &'a Graph,
    nodes: &'a [Node],
    uses: Uses,
    /// For each node nothing, if it stays, or the steps in its place.
    replaced: Vec<Option<Vec<Step>>>,
}

impl Fusion<'_> {
    /// Puts steps in the place of one node, and nothing in that of others.
    fn replace(&mut self, at: usize, steps: Vec<Step>, others: impl IntoIterator<Item = usize>) {
        for node in others {
            self.replaced[node] = Some(Vec::new());
        }
        self.replaced[at] = Some(steps);
    }

    /// Puts steps in the place of the first of some nodes, and nothing in that of the others.
    fn replace_first(&mut self, steps: Vec<Step>, nodes: Vec<usize>) {
        if let Some(first) = nodes.iter().min().copied() {
            self.replace(first, steps, nodes);
        }
    }
}

/// Returns the steps of a graph, in an order that keeps all reads and writes of buffers as they were.
pub(crate) fn fuse(graph: &Graph) -> Vec<Step> {
    let nodes = graph.nodes();
    let mut fusion = Fusion {
        graph,
        nodes,
        uses: Uses::of(graph),
        replaced: nodes.iter().map(|_| None).collect(),
    };
    for at in 0..nodes.len() {
        // The patterns end with different ops, so at most one of them matches.
        let _ = rope_kv_write::fuse(&mut fusion, at)
            .or_else(|| gated::fuse(&mut fusion, at))
            .or_else(|| add_norm::fuse(&mut fusion, at));
    }
    let steps = nodes.iter().zip(fusion.replaced);
    let steps = steps.flat_map(|(node, steps)| match steps {
        Some(steps) => steps,
        None => vec![Step::Node(node.clone())],
    });
    steps.collect()
}

//! The steps of a fused graph, and a graph that is being fused.

use wisp_graph::{
    Graph, Node, Op, ValueId, ValueKind,
    lowering::{LoweringError, OpLowering},
};

use super::uses::Uses;

/// Nodes that are lowered together.
pub(crate) trait FusedStep {
    /// Returns the step's name, for messages and profiles.
    fn name(&self) -> &'static str;

    /// Returns the values that the step reads.
    fn operands(&self) -> Vec<ValueId>;

    /// Lowers the step to kernel calls.
    fn lower(&self, op: &mut OpLowering<'_>) -> Result<(), LoweringError>;
}

/// Why a pattern does not match at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Miss {
    /// The node does not end such a pattern.
    Absent,
    /// It does but for this, which ends the sentence "is not fused, because …".
    Unfit(&'static str),
}

impl Miss {
    /// Returns an error for a reason unless it holds.
    pub fn unless(holds: bool, reason: &'static str) -> Result<(), Miss> {
        match holds {
            true => Ok(()),
            false => Err(Miss::Unfit(reason)),
        }
    }
}

/// A step of the fused graph.
pub(crate) enum Step {
    /// A single node, perhaps with the pattern that it misses and why.
    Node(Node, Option<(&'static str, &'static str)>),
    /// Several nodes.
    Fused(Box<dyn FusedStep>),
}

impl Step {
    /// Returns the values that the step reads.
    pub fn operands(&self) -> Vec<ValueId> {
        match self {
            Step::Node(node, _) => node.inputs.clone(),
            Step::Fused(step) => step.operands(),
        }
    }
}

/// A graph that is being fused: who makes and reads each value, and what becomes of each node.
pub(super) struct Fusion<'a> {
    pub graph: &'a Graph,
    pub nodes: &'a [Node],
    pub uses: Uses,
    /// For each node nothing, if it stays, or the steps in its place.
    pub replaced: Vec<Option<Vec<Step>>>,
}

impl Fusion<'_> {
    /// True if a value is there before the node at `early`, and no node from there to the one at `late` writes it:
    /// then either may read it for the other.
    pub fn is_same(&self, id: ValueId, early: usize, late: usize) -> bool {
        let storage = self.graph.storage(id);
        let producer = self.uses.producer(storage);
        let is_there = producer.is_none_or(|producer| producer < early);
        let is_buffer = self.graph.value(storage).kind == ValueKind::Buffer;
        let mut between = self.nodes.iter().take(late).skip(early);
        is_there && !(is_buffer && between.any(|node| may_write(node, storage)))
    }

    /// Puts steps in the place of one node, and nothing in that of others.
    pub fn replace(
        &mut self,
        at: usize,
        steps: Vec<Step>,
        others: impl IntoIterator<Item = usize>,
    ) {
        for node in others {
            self.replaced[node] = Some(Vec::new());
        }
        self.replaced[at] = Some(steps);
    }

    /// Puts steps in the place of the first of some nodes, and nothing in that of the others.
    pub fn replace_first(&mut self, steps: Vec<Step>, nodes: Vec<usize>) {
        if let Some(first) = nodes.iter().min().copied() {
            self.replace(first, steps, nodes);
        }
    }
}

/// True if a node takes a buffer and its op is none of those that are fused and only read.
fn may_write(node: &Node, buffer: ValueId) -> bool {
    let reads = matches!(
        node.op,
        Op::Linear(_) | Op::Lora(_) | Op::Norm(_) | Op::Rope(_)
    );
    !reads && node.inputs.contains(&buffer)
}

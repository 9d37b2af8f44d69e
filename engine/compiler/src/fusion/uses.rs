//! Which node makes each value of a graph, and which nodes read it.

use std::collections::HashMap;

use wisp_graph::{Graph, Op, ValueId, ValueKind};

/// Returns the values whose memory is read after a run: the outputs, and the copies that are printed.
pub(crate) fn read_after_run(graph: &Graph) -> impl Iterator<Item = ValueId> {
    let outputs = graph.outputs().map(|(_, id)| graph.storage(id));
    let prints = graph.nodes().iter();
    let prints = prints.filter(|node| matches!(node.op, Op::Print(_)));
    outputs.chain(prints.flat_map(|node| node.outputs.iter().copied()))
}

/// The producer and the readers of each value, as indices of nodes.
pub(super) struct Uses {
    producer: HashMap<ValueId, usize>,
    /// The readers of a value, and those of its views.
    readers: HashMap<ValueId, Vec<usize>>,
    /// The values whose memory is read after a run.
    outputs: Vec<ValueId>,
}

impl Uses {
    /// Collects the uses of a graph's values.
    pub fn of(graph: &Graph) -> Uses {
        let mut producer = HashMap::new();
        let mut readers: HashMap<ValueId, Vec<usize>> = HashMap::new();
        for (i, node) in graph.nodes().iter().enumerate() {
            producer.extend(node.outputs.iter().map(|id| (*id, i)));
            for id in &node.inputs {
                readers.entry(*id).or_default().push(i);
                // Reading a view reads the value that it is of.
                let storage = graph.storage(*id);
                if storage != *id {
                    readers.entry(storage).or_default().push(i);
                }
            }
        }
        Uses {
            producer,
            readers,
            outputs: read_after_run(graph).collect(),
        }
    }

    /// Returns the node that makes a value.
    pub fn producer(&self, id: ValueId) -> Option<usize> {
        self.producer.get(&id).copied()
    }

    /// Returns the nodes that read a value, in order.
    pub fn readers(&self, id: ValueId) -> &[usize] {
        self.readers.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Returns the only node that reads a value, if nothing reads it after the run.
    pub fn only_reader(&self, id: ValueId) -> Option<usize> {
        match self.readers(id) {
            [reader] if !self.outputs.contains(&id) => Some(*reader),
            _ => None,
        }
    }

    /// True if `id` is the result of a node, and nothing reads it after the node at `position`.
    pub fn ends_at(&self, graph: &Graph, id: ValueId, position: usize) -> bool {
        let readers = self.readers(id);
        graph.value(id).kind == ValueKind::Node
            && !self.outputs.contains(&id)
            && !readers.is_empty()
            && readers.iter().all(|reader| *reader <= position)
    }
}

//! Fusion: several nodes of a graph become one step, which takes fewer kernel calls.
//!
//! [`PATTERNS`] lists what is fused; a file each has a pattern and its lowering. Nodes that form a pattern but for
//! a detail are [reported](crate::program::Unfused), because they run more calls than they need.
//!
//! The first two patterns share [`stacked`]: linear layers of the same operand whose weights are stacked, with their
//! low-rank adapters.

mod add_norm;
mod gated;
mod rope_kv_write;
mod stacked;
mod step;
mod uses;

use wisp_graph::Graph;

pub(crate) use step::Step;
pub(crate) use uses::read_after_run;

use step::{Fusion, Miss};
use uses::Uses;

/// Nodes that become fewer kernel calls.
struct Pattern {
    /// What reports call the pattern.
    name: &'static str,
    /// Fuses the pattern that ends with a node.
    fuse: fn(&mut Fusion<'_>, usize) -> Result<(), Miss>,
}

/// The patterns. They end with different ops, so at most one of them matches a node.
const PATTERNS: [Pattern; 3] = [
    // Three linear layers, perhaps norms of each head, rotary embedding and the write to the KV cache: a product
    // with stacked weights, and one kernel for the rest.
    Pattern {
        name: "rope_kv_write",
        fuse: rope_kv_write::fuse,
    },
    // Two linear layers and the gate over them: one product with both weights and the gate.
    Pattern {
        name: "gated",
        fuse: gated::fuse,
    },
    // A sum and its norm: one kernel, which adds in place.
    Pattern {
        name: "add_norm",
        fuse: add_norm::fuse,
    },
];

/// Returns the steps of a graph, in an order that keeps all reads and writes of buffers as they were.
pub(crate) fn fuse(graph: &Graph) -> Vec<Step> {
    let nodes = graph.nodes();
    let mut fusion = Fusion {
        graph,
        nodes,
        uses: Uses::of(graph),
        replaced: nodes.iter().map(|_| None).collect(),
    };
    let mut unfused = vec![None; nodes.len()];
    for (at, unfused) in unfused.iter_mut().enumerate() {
        for Pattern { name, fuse } in &PATTERNS {
            if let Err(Miss::Unfit(reason)) = fuse(&mut fusion, at) {
                *unfused = Some((*name, reason));
            }
        }
    }
    let steps = nodes.iter().zip(unfused).zip(fusion.replaced);
    let steps = steps.flat_map(|((node, unfused), steps)| match steps {
        Some(steps) => steps,
        None => vec![Step::Node(node.clone(), unfused)],
    });
    steps.collect()
}

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
mod step;
mod uses;

use wisp_graph::Graph;

pub(crate) use step::Step;

use step::Fusion;
use uses::Uses;

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

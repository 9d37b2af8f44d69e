//! Embeddings by layer in host memory: where a model's table of them is, and the rows of a step's tokens.

mod placements;
mod table;

pub(crate) use placements::{Placed, graphs, place, remedy};
pub(crate) use table::LayerEmbeddingTable;

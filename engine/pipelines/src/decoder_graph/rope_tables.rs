//! The tables of rotations that the graph reads as computed weights.

use std::ops::Range;

use wisp_graph::ValueId;
use wisp_types::{Encoding, shape};

use super::builder::GraphBuilder;
use crate::{rope::Rotations, spec::QueryScaling};

impl GraphBuilder<'_, '_> {
    /// Adds the table of each rotary embedding for positions below `length`, and a small one for
    /// layers that do not rotate. With `scaling`, the tables are those of queries, which it scales
    /// with the position.
    pub fn rope_tables(&mut self, length: u64, scaling: Option<QueryScaling>) -> Vec<ValueId> {
        let spec = self.spec;
        let suffix = scaling.map_or("", |_| ".queries");
        let mut tables = Vec::new();
        for (i, settings) in spec.ropes.iter().enumerate() {
            let used = spec.layers.iter().any(|layer| layer.rope == Some(i));
            let length = if used { length } else { 1 };
            let (theta, rope_scaling) = (settings.theta, &settings.scaling);
            let rotations = Rotations::new(theta, spec.rotary_dim, rope_scaling, length, scaling);
            let shape = [table_rows(length), spec.rotated().into()];
            let compute = move |range| rotations.elements(range);
            tables.push(self.computed_table(&format!("rope.table.{i}{suffix}"), shape, compute));
        }
        let identity = |range: Range<u64>| range.map(|i| (1 - i % 2) as f32).collect();
        tables.push(self.computed_table(&format!("rope.none{suffix}"), [1, 2], identity));
        tables
    }

    fn computed_table(
        &mut self,
        name: &str,
        shape: [u64; 2],
        compute: impl Fn(Range<u64>) -> Vec<f32> + Send + Sync + 'static,
    ) -> ValueId {
        self.weights.add_computed(name, &shape, compute);
        let shape = shape![shape[0], shape[1]];
        self.graph.weight(name, Encoding::F32, shape)
    }
}

/// Returns the rows of a table for contexts of a length. They are rounded up to powers of two, so
/// that few programs differ only in this size.
pub(crate) fn table_rows(length: u64) -> u64 {
    match length {
        0..=1 => 1,
        _ => length
            .checked_next_power_of_two()
            .unwrap_or(length)
            .max(256),
    }
}

//! The tables of rotations that the graph reads as computed weights.

use std::ops::Range;

use wisp_graph::ValueId;
use wisp_types::{Encoding, shape};

use super::builder::GraphBuilder;
use crate::{rope::Rotations, spec::QueryScaling};

impl GraphBuilder<'_, '_> {
    /// Adds the table of each rotary embedding for positions below `length`, and one for layers that do not rotate. With
    /// `scaling`, the tables are those of queries, which it scales with the position.
    pub fn rope_tables(&mut self, length: u64, scaling: Option<QueryScaling>) -> Vec<ValueId> {
        let spec = self.spec;
        let suffix = scaling.map_or("", |_| ".queries");
        let mut tables = Vec::new();
        for (i, settings) in spec.ropes.iter().enumerate() {
            let used = spec.layers.iter().any(|layer| layer.rope == Some(i));
            let length = if used { length } else { 1 };
            let rotary_dim = settings.rotary_dim.unwrap_or(spec.rotary_dim);
            let (theta, rope_scaling) = (settings.theta, &settings.scaling);
            let scaling = scaling.filter(|scaling| scaling.rotated);
            let rotations = Rotations::new(theta, rotary_dim, rope_scaling, length, scaling);
            let shape = [table_rows(length), spec.rotated(i).into()];
            let compute = move |range| rotations.elements(range);
            tables.push(self.computed_table(&format!("rope.table.{i}{suffix}"), shape, compute));
        }
        let scaling = scaling.filter(|scaling| !scaling.rotated);
        let (rows, cols) = match scaling {
            Some(_) => (table_rows(length), spec.head_dim.into()),
            None => (1, 2),
        };
        // Cosines of an angle of 0, and sines.
        let element = move |i: u64| match i.is_multiple_of(2) {
            true => scaling.map_or(1.0, |scaling| scaling.factor(i / cols) as f32),
            false => 0.0,
        };
        let none = format!("rope.none{suffix}");
        let compute = move |range: Range<u64>| range.map(element).collect();
        tables.push(self.computed_table(&none, [rows, cols], compute));
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

//! What a lowering reads of the graph that its node is in.

use crate::{
    extension::{CustomSettings, Extension},
    value::{Value, ValueId},
};

/// The values of a node that is being lowered.
#[derive(Clone, Copy, Debug)]
pub struct NodeValues<'a> {
    /// The operands: what the op reads, and the buffers it writes.
    pub inputs: &'a [ValueId],
    /// The values that the op computes, in the op's order.
    pub outputs: &'a [ValueId],
}

/// The tables of a graph that lowerings read: values, labels and custom ops.
pub trait GraphTables {
    /// Returns a value.
    fn value(&self, id: ValueId) -> &Value;

    /// Returns the label of a `print` node, by its index.
    fn label(&self, index: usize) -> Option<&str>;

    /// Returns the custom op and its settings of a `custom` node, by its index.
    fn custom_settings(&self, index: usize) -> Option<(&Extension, &CustomSettings)>;
}

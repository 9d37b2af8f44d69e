//! The sizes of symbolic dimensions in a run.

/// The sizes of a program's symbolic dimensions in one run, in the program's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dims(pub(crate) Vec<u64>);

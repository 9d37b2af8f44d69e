//! The handle of a loaded adapter.

/// A loaded adapter, as requests name it. Loading an adapter again under the same name gives another
/// handle, so that requests never run with weights that they were not made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// The slot of the device's buffers that holds its weights.
    pub(crate) slot: u32,
    /// The start of the prefix hashes of its sequences, which no other adapter has had: KV pages
    /// depend on the adapter.
    pub(crate) number: u64,
}

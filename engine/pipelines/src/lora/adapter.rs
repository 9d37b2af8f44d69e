//! The handle of a loaded adapter.

/// A loaded adapter, as requests name it. Loading an adapter again under the same name gives another
/// handle, so that requests never run with weights that they were not made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// The slot of the device's buffers that holds its weights.
    pub(crate) slot: u32,
    /// Keeps its sequences from sharing pages of the KV cache with others, because keys and values depend
    /// on the adapter. No other adapter has had it.
    pub(crate) cache_salt: u64,
}

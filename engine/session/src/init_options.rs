//! Options of `InferenceSession::init` and `load`.

use std::collections::HashMap;

use wisp_device::Buffer;

/// How a compiled graph is bound: sizes, memory of the caller, and who hears of progress.
#[derive(Default)]
pub struct InitOptions<'a> {
    /// The largest size that each symbolic dimension will have.
    pub max_dims: HashMap<String, u64>,
    /// Device memory for inputs, buffers and outputs that the model shares with others. Inputs and
    /// buffers not named here are allocated, all zero.
    pub shared: HashMap<String, Buffer>,
    /// Called with the bytes of weights loaded so far and in all.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Send + Sync)>,
}

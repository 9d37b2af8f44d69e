//! Options of `InferenceSession::init` and `load`.

use std::{collections::HashMap, ops::ControlFlow};

use wisp_device::Buffer;

/// Options for binding a compiled graph: sizes, shared memory and progress.
#[derive(Default)]
pub struct InitOptions<'a> {
    /// The largest size of each symbolic dimension, by its name.
    pub max_dims: HashMap<String, u64>,
    /// Device memory, by the name of the input or buffer that uses it, which other models may use too.
    /// Inputs and buffers without an entry are allocated, all zero.
    pub shared: HashMap<String, Buffer>,
    /// Called with the bytes of weights loaded so far and in total.
    pub progress: Option<OnProgress<'a>>,
}

/// A callback that gets the bytes of weights loaded so far and in total; `Break` cancels the loading, which
/// then fails with [`SessionError::Cancelled`](crate::SessionError::Cancelled).
pub type OnProgress<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Send + Sync);

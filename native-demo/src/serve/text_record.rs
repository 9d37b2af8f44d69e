//! What is known of a text at its end.

use std::time::Duration;

use wisp_engine::{FinishReason, RequestTimings};

use super::models::ServedModel;

/// How far a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextPhase {
    /// The model has computed nothing of it.
    Waiting,
    /// It is being computed.
    Running,
    /// It has ended.
    Ended(FinishReason),
    /// It has ended with an error.
    Failed,
}

/// A text that has ended, or whose client went away.
#[derive(Debug)]
pub struct TextRecord<'t> {
    /// Its model.
    pub served: &'t ServedModel,
    /// The tokens of its prompt.
    pub prompt_tokens: usize,
    /// Its generated tokens.
    pub tokens: usize,
    /// The times of its tokens.
    pub timings: RequestTimings,
    /// The time since it was queued.
    pub elapsed: Duration,
    /// How far it came.
    pub phase: TextPhase,
    /// Whether the model had begun to compute it.
    pub has_run: bool,
}

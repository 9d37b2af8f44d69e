//! The error of a step, with the requests that it ended.

use crate::{PipelineError, RequestId};

/// Why a step failed. The requests that took part in it have ended; all others continue.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct StepError {
    /// The requests that took part in the step.
    pub requests: Vec<RequestId>,
    /// What failed.
    pub source: Box<PipelineError>,
}

impl From<StepError> for PipelineError {
    fn from(error: StepError) -> PipelineError {
        *error.source
    }
}

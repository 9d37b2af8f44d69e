//! How long dispatches take.

use std::{fmt, ops::Range};

use wisp_types::BoxFuture;

use crate::error::DeviceError;

/// What times are measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Timestamps of the device itself, which count only the time in which kernels run.
    Device,
    /// The host's clock, from submitting to the end: the device has no timestamps, or is the host.
    Host,
    /// None, in a browser whose device has no timestamps: all times are 0.
    None,
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Clock::Device => "the device's timestamps",
            Clock::Host => {
                "the host's clock, submitting and waiting included: the device gives no timestamps"
            }
            Clock::None => "no clock: the device gives no timestamps",
        })
    }
}

/// Which dispatches are timed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// All of a submission.
    Submission,
    /// Each dispatch by itself.
    Dispatch,
}

/// The start and end of what was timed, in order, in nanoseconds since an arbitrary moment of the
/// [clock](Clock); ready when the device has run it. An empty submission has none.
pub type Spans = BoxFuture<'static, Result<Vec<Range<u64>>, DeviceError>>;

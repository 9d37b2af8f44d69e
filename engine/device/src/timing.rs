//! How long submissions take: by the device's own timestamps, or by the host's clock.

use std::{fmt, ops::Range, pin::Pin};

use super::{Backend, DeviceError, Dispatch};

/// What times are measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The device's own timestamps: only the time in which kernels run.
    Device,
    /// The host's clock, from submitting to the end: the device has no timestamps, or is the host.
    Host,
    /// None: a browser whose device has no timestamps. All times are 0.
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

/// What of a submission is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// All of it together.
    Submission,
    /// Each of its dispatches.
    Dispatch,
}

impl Granularity {
    /// The dispatches that are timed together.
    pub(super) fn parts(self, dispatches: &[Dispatch]) -> std::slice::Chunks<'_, Dispatch> {
        dispatches.chunks(match self {
            Granularity::Submission => dispatches.len().max(1),
            Granularity::Dispatch => 1,
        })
    }
}

/// Start and end of what was timed, in order, in nanoseconds since some moment of the clock's own; to be
/// had when it has run. An empty submission has none.
pub type Spans = Pin<Box<dyn Future<Output = Result<Vec<Range<u64>>, DeviceError>> + Send>>;

/// What is left where a device has no timestamps.
pub(super) const fn without_timestamps() -> Clock {
    match cfg!(target_arch = "wasm32") {
        true => Clock::None,
        false => Clock::Host,
    }
}

/// Runs dispatches by the host's clock: waits for what ran before, and for what is timed.
pub(super) fn by_host<B: Backend + ?Sized>(
    backend: &B,
    dispatches: &[Dispatch],
    granularity: Granularity,
) -> Result<Spans, DeviceError> {
    let mut spans = Vec::new();
    for timed in granularity.parts(dispatches) {
        wait(backend)?;
        let start = now();
        backend.record(timed)?;
        backend.submit()?;
        wait(backend)?;
        spans.push(start..now());
    }
    Ok(Box::pin(std::future::ready(Ok(spans))))
}

#[cfg(not(target_arch = "wasm32"))]
fn wait<B: Backend + ?Sized>(backend: &B) -> Result<(), DeviceError> {
    pollster::block_on(backend.finish())
}

#[cfg(target_arch = "wasm32")]
fn wait<B: Backend + ?Sized>(_: &B) -> Result<(), DeviceError> {
    Ok(())
}

/// Nanoseconds since this was first asked.
#[cfg(not(target_arch = "wasm32"))]
fn now() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let start = START.get_or_init(std::time::Instant::now);
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(target_arch = "wasm32")]
fn now() -> u64 {
    0
}

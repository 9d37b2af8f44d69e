//! How long dispatches take: by the device's own timestamps, or by the host's clock.

use std::{fmt, ops::Range};

use wisp_types::BoxFuture;

use crate::{DeviceError, Dispatch, backend::Backend};

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

impl Granularity {
    /// Divides dispatches into those that are timed together.
    pub(crate) fn timed_together(
        self,
        dispatches: &[Dispatch],
    ) -> std::slice::Chunks<'_, Dispatch> {
        dispatches.chunks(match self {
            Granularity::Submission => dispatches.len().max(1),
            Granularity::Dispatch => 1,
        })
    }
}

/// The start and end of what was timed, in order, in nanoseconds since an arbitrary moment of the
/// [clock](Clock); ready when the device has run it. An empty submission has none.
pub type Spans = BoxFuture<'static, Result<Vec<Range<u64>>, DeviceError>>;

/// The clock of devices without timestamps.
pub(crate) const fn clock_without_timestamps() -> Clock {
    match cfg!(target_arch = "wasm32") {
        true => Clock::None,
        false => Clock::Host,
    }
}

/// Times dispatches by the host's clock: waits for what ran before, and for what is timed.
pub(crate) fn by_host_clock<B: Backend + ?Sized>(
    backend: &B,
    dispatches: &[Dispatch],
    granularity: Granularity,
) -> Result<Spans, DeviceError> {
    let mut spans = Vec::new();
    for timed in granularity.timed_together(dispatches) {
        wait(backend)?;
        let start = now();
        backend.record(timed)?;
        wait(backend)?;
        spans.push(start..now());
    }
    backend.submit()?;
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

/// Nanoseconds since the first call of this.
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

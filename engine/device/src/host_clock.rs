//! Timing of dispatches by the host's clock, for devices without timestamps.

use crate::{
    backend::Backend,
    error::DeviceError,
    pipeline::Dispatch,
    timing::{Clock, Granularity, Spans},
};

/// Divides dispatches into those that are timed together.
pub(crate) fn timed_together(
    dispatches: &[Dispatch],
    granularity: Granularity,
) -> std::slice::Chunks<'_, Dispatch> {
    dispatches.chunks(match granularity {
        Granularity::Submission => dispatches.len().max(1),
        Granularity::Dispatch => 1,
    })
}

/// The clock of devices without timestamps of their own.
pub(crate) const fn clock() -> Clock {
    match cfg!(target_arch = "wasm32") {
        true => Clock::None,
        false => Clock::Host,
    }
}

/// Times dispatches by the host's clock: waits for what ran before, and for what is timed.
pub(crate) fn submit_timed<B: Backend + ?Sized>(
    backend: &B,
    dispatches: &[Dispatch],
    granularity: Granularity,
) -> Result<Spans, DeviceError> {
    let mut spans = Vec::new();
    for timed in timed_together(dispatches, granularity) {
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

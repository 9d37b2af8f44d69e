//! A run with checks: each op by itself if a check asks for it, then the values that the graph prints.

use wisp_device::DeviceError;

use super::{config::LogLevel, print, steps};
#[cfg(target_arch = "wasm32")]
use super::{debugger::Debugger, error::DebugError};
use crate::{dims::Dims, error::SessionError, model::Model};

/// Runs a model with the checks that its session asks for, and prints what its graph prints.
pub(crate) async fn run(model: &Model, dims: &Dims) -> Result<(), SessionError> {
    let debugger = &*model.debugger;
    let config = debugger.config()?;
    let run = debugger.next_run();
    let prepared = model.prepared(dims)?;
    let done = steps::run(debugger, &config, model, &prepared).await;
    if let Err(error) = &done {
        debugger.log(severity(error), || error.to_string());
    }
    done?;
    print::all(debugger, &config.print, model, dims, run).await
}

/// The error of a run that would have to wait for the device, which a browser's main thread cannot.
#[cfg(target_arch = "wasm32")]
pub(crate) fn cannot_wait(debugger: &Debugger) -> Result<(), SessionError> {
    debugger.config()?;
    Err(DebugError::Waits.into())
}

/// The level at which a failed run is logged.
fn severity(error: &SessionError) -> LogLevel {
    let device = match error {
        SessionError::Device(device) => Some(device),
        SessionError::InOp { source, .. } => Some(&**source),
        _ => None,
    };
    match device {
        Some(DeviceError::Lost { .. }) => LogLevel::Critical,
        _ => LogLevel::Error,
    }
}

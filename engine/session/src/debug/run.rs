//! A run with checks: each op by itself if a check asks for it, then the values that the graph prints.

use wisp_device::DeviceError;

use super::{
    config::LogLevel,
    log::{self, Subject},
    print, steps,
};
#[cfg(target_arch = "wasm32")]
use super::{debugger::Debugger, error::DebugError};
use crate::{dims::Dims, error::SessionError, model::Model, recording::Run};

/// Runs a model with the checks that its session asks for, and prints what its graph prints.
pub(crate) async fn run(model: &Model, dims: &Dims) -> Result<(), SessionError> {
    let debugger = &*model.debugger;
    let config = debugger.config()?;
    let run = debugger.next_run();
    let prepared = model.prepared(dims)?;
    let done = steps::run(debugger, &config, model, &prepared).await;
    if let Err(error) = &done {
        let subject = Subject {
            device: &model.device.info().name,
            model: Some(&model.program.name),
            ..Subject::default()
        };
        debugger.log(severity(error), subject, || error.to_string());
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

/// Logs the kernel calls of a run that is not watched, if a `tracing` subscriber takes them.
pub(crate) fn trace_ops(model: &Model, run: &Run) {
    if log::is_enabled(LogLevel::Trace) {
        steps::log_ops(model, run, false);
    }
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

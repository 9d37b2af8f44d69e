//! A run stage by stage, with checks of the operands and results of each.
//!
//! Intermediate results share memory: one is valid from the stage that writes it to the last stage that
//! reads it. So the results of a stage are read right after it, before anything else runs.
//!
//! The check for uninitialised reads fills a result with a pattern, a NaN that no computation returns, before
//! the stage that writes it. Where the pattern remains, nothing was written, and a later stage that reads
//! this result is the error. The check does not see which elements that stage reads, unwritten elements of
//! inputs and buffers, which begin as zeros, or memory within a kernel.

use std::collections::HashMap;

use wisp_shaders::Kernel;

use super::{
    asserts::{self, Operands, Violation},
    config::{AssertLevel, DebugConfig, LogLevel},
    debugger::Debugger,
    error::DebugError,
    log::{self, Subject},
};
use crate::{dims::Dims, error::SessionError, model::Model, params::call_params, recording::Run};
use wisp_compiler::{BufferRef, Size, StageOutput};
use wisp_device::{Device, DeviceError, Dispatch};
use wisp_types::DType;

/// The pattern that results are filled with.
const PATTERN: u32 = 0x7fe5_5afe;

/// A result with an unwritten element.
struct Gap {
    tensor: String,
    made_by: String,
    index: usize,
    elements: usize,
}

/// The number of elements of a port or result.
pub(super) fn elements(size: &Size, dims: &Dims) -> usize {
    let elements = size.eval(&dims.0).unwrap_or(0);
    usize::try_from(elements).unwrap_or(0)
}

struct Steps<'a> {
    debugger: &'a Debugger,
    config: &'a DebugConfig,
    device: &'a Device,
    model: &'a Model,
    run: &'a Run,
    dims: &'a Dims,
    /// Unwritten elements by slot.
    gaps: HashMap<u32, Gap>,
}

pub(super) async fn run(
    debugger: &Debugger,
    config: &DebugConfig,
    model: &Model,
    run: &Run,
) -> Result<(), SessionError> {
    let mut steps = Steps {
        debugger,
        config,
        device: model.device(),
        model,
        run,
        dims: run.dims(),
        gaps: HashMap::new(),
    };
    let stages = &model.program().stages;
    if !config.steps() || stages.is_empty() {
        if config.logs_ops() || log::is_enabled(LogLevel::Trace) {
            log_ops(model, run, config.logs_ops());
        }
        return Ok(model.device().record(run.dispatches())?);
    }
    let mut first = 0;
    for (i, stage) in stages.iter().enumerate() {
        let calls = first..stage.calls as usize;
        first = calls.end;
        steps.before(calls.clone(), &stage.outputs)?;
        for call in calls.clone() {
            steps.call(call, call + 1 == calls.end).await?;
        }
        let looked_at = config.nan_check > 0 && (i + 1) % config.nan_check as usize == 0;
        if looked_at || config.uninitialised {
            steps.after(calls, &stage.outputs, looked_at).await?;
        }
    }
    Ok(())
}

/// Logs all kernel calls of a run.
pub(super) fn log_ops(model: &Model, run: &Run, to_sink: bool) {
    for call in 0..model.program.calls.len() {
        if let Some(dispatch) = run.dispatch_of(call) {
            log_op(model, call, dispatch, to_sink);
        }
    }
}

fn log_op(model: &Model, call: usize, dispatch: &Dispatch, to_sink: bool) {
    let program = &model.program;
    let op = program.calls.get(call).map_or("", |call| &call.label);
    let [x, y, z] = dispatch.workgroups();
    let kernel = dispatch.kernel();
    let mut text = format!(
        "{} {}/{} {op}: {x} x {y} x {z} workgroups of {}",
        program.name,
        call + 1,
        program.calls.len(),
        kernel.name,
    );
    if let Some(fallback) = program.fallback(call, kernel) {
        let (best, multiple) = (fallback.best, fallback.cols_multiple);
        text +=
            &format!(" instead of {best}, which needs rows of a multiple of {multiple} elements");
    }
    if let Some(unfused) = program.unfused(call) {
        text += &format!(", {unfused}");
    }
    let subject = subject(model, op, kernel);
    model.debugger.log_op(to_sink, subject, &text);
}

fn subject<'a>(model: &'a Model, op: &'a str, kernel: &'a Kernel) -> Subject<'a> {
    Subject {
        device: &model.device.info().name,
        model: Some(&model.program.name),
        op: Some(op),
        kernel: Some(kernel.name),
    }
}

impl Steps<'_> {
    /// The op of a stage: the label of its last call.
    fn op(&self, calls: &std::ops::Range<usize>) -> String {
        let last = calls.end.checked_sub(1);
        let call = last.and_then(|last| self.model.program().calls.get(last));
        call.map_or("nothing", |call| &call.label).into()
    }

    async fn call(&self, call: usize, last: bool) -> Result<(), SessionError> {
        let Some(dispatch) = self.run.dispatch_of(call) else {
            return Ok(());
        };
        if self.config.logs_ops() || log::is_enabled(LogLevel::Trace) {
            log_op(self.model, call, dispatch, self.config.logs_ops());
        }
        let program = self.model.program();
        let kernel = dispatch.kernel();
        let op = program.calls.get(call).map_or("", |call| &call.label);
        if self.config.asserts()
            && let Some(failed) = self.violation(call, kernel, last).await?
        {
            let error = DebugError::Assertion {
                model: program.name.clone(),
                op: op.into(),
                kernel: kernel.name.into(),
                what: failed.what,
                index: failed.index,
                value: failed.value,
                below: failed.below,
            };
            if self.config.asserts == AssertLevel::All {
                return Err(error.into());
            }
            let subject = subject(self.model, op, kernel);
            self.debugger
                .log(LogLevel::Warning, subject, || error.to_string());
        }
        let failed = |source: DeviceError| SessionError::InOp {
            op: op.into(),
            kernel: kernel.name,
            source: Box::new(source),
        };
        let recorded = self.device.record(std::slice::from_ref(dispatch));
        recorded.map_err(failed)?;
        // Submitted alone, so that an error of the device is this op's.
        self.device.submit().map_err(failed)?;
        if self.config.synchronous {
            self.device.finish().await.map_err(failed)?;
        }
        Ok(())
    }

    async fn violation(
        &self,
        call: usize,
        kernel: &Kernel,
        last: bool,
    ) -> Result<Option<Violation>, SessionError> {
        let Some(call) = self.model.program().calls.get(call) else {
            return Ok(None);
        };
        let operands = Operands {
            device: self.device,
            model: self.model,
            dims: self.dims,
            call,
            params: call_params(call, self.dims)?,
        };
        asserts::check(kernel, &operands, last).await
    }

    /// Reports reads of unwritten results, and fills the results of the stage with the pattern.
    fn before(
        &mut self,
        calls: std::ops::Range<usize>,
        made: &[StageOutput],
    ) -> Result<(), SessionError> {
        if !self.config.uninitialised {
            return Ok(());
        }
        for result in made.iter().filter(|result| result.is_new) {
            self.gaps.remove(&result.slot);
        }
        let program = self.model.program();
        let taken = program.calls[calls.clone()]
            .iter()
            .flat_map(|call| &call.bindings);
        let gap = taken.into_iter().find_map(|place| match place {
            BufferRef::Slot(slot) => self.gaps.get(slot),
            _ => None,
        });
        if let Some(gap) = gap {
            let error = DebugError::Uninitialised {
                model: program.name.clone(),
                op: self.op(&calls),
                tensor: gap.tensor.clone(),
                made_by: gap.made_by.clone(),
                index: gap.index,
                elements: gap.elements,
            };
            return Err(error.into());
        }
        for result in made.iter().filter(|result| result.is_new) {
            let elements = elements(&result.elements, self.dims);
            if let Some(buffer) = self.model.memory.buffer(BufferRef::Slot(result.slot)) {
                let bytes = PATTERN.to_le_bytes().repeat(elements);
                self.device.write(buffer, 0, &bytes)?;
            }
        }
        Ok(())
    }

    /// Checks the results of the stage.
    async fn after(
        &mut self,
        calls: std::ops::Range<usize>,
        made: &[StageOutput],
        for_nan: bool,
    ) -> Result<(), SessionError> {
        for result in made {
            let elements = elements(&result.elements, self.dims);
            let Some(buffer) = self.model.memory.buffer(BufferRef::Slot(result.slot)) else {
                continue;
            };
            if elements == 0 {
                continue;
            }
            let bytes = self.device.read(buffer, 0..elements as u64 * 4).await?;
            let words: Vec<u32> = bytemuck::pod_collect_to_vec(&bytes);
            let unwritten = |word: &u32| self.config.uninitialised && *word == PATTERN;
            if let (true, Some(index)) = (result.is_new, words.iter().position(unwritten)) {
                let gap = Gap {
                    tensor: result.name.clone(),
                    made_by: self.op(&calls),
                    index,
                    elements,
                };
                self.gaps.insert(result.slot, gap);
            }
            let not_finite = |word: &u32| !f32::from_bits(*word).is_finite() && !unwritten(word);
            if !for_nan || result.dtype != DType::F32 {
                continue;
            }
            if let Some(index) = words.iter().position(not_finite) {
                let error = DebugError::NotFinite {
                    model: self.model.program().name.clone(),
                    op: self.op(&calls),
                    tensor: result.name.clone(),
                    index,
                    elements,
                    value: f32::from_bits(words[index]).to_string(),
                    stride: self.config.nan_check,
                };
                return Err(error.into());
            }
        }
        Ok(())
    }
}

//! A run step by step, with a look at what each step takes and makes.
//!
//! Intermediate results share memory: one is there from the step that makes it to the last that reads it.
//! So what a step has made is read right after it, before anything else runs.
//!
//! The check for uninitialised reads fills a result with a pattern, a NaN that nothing calculates, before
//! the step that makes it; where it still stands afterwards, nothing was written. A later step that is given
//! such a result is the error. What it does not see: which elements that step really reads; what is not
//! written in inputs and buffers, which begin as zeros; and memory within a kernel.

use std::collections::HashMap;

use wisp_shaders::Kernel;

use super::{
    asserts::{self, Failed, Operands},
    config::{AssertLevel, DebugConfig, LogLevel},
    debugger::Debugger,
    error::DebugError,
};
use crate::{dims::Dims, error::SessionError, model::Model, params::call_params, recording::Run};
use wisp_compiler::{BufferRef, Size, StageOutput};
use wisp_device::{Device, DeviceError, Dispatch};
use wisp_types::DType;

/// What results are filled with.
const PATTERN: u32 = 0x7fe5_5afe;

/// A result that is not written whole.
struct Gap {
    tensor: String,
    made_by: String,
    index: usize,
    elements: usize,
}

/// How many elements there are.
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
    /// By slot.
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
        steps.tell_all();
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

impl Steps<'_> {
    /// The op of some calls: what the last of them is for.
    fn op(&self, calls: &std::ops::Range<usize>) -> String {
        let last = calls.end.checked_sub(1);
        let call = last.and_then(|last| self.model.program().calls.get(last));
        call.map_or("nothing", |call| &call.label).into()
    }

    fn tell(&self, call: usize, dispatch: &Dispatch) {
        let program = self.model.program();
        let op = program.calls.get(call).map_or("", |call| &call.label);
        let [x, y, z] = dispatch.workgroups();
        self.debugger.tell(&format!(
            "op: {} {}/{} {op}: {} x {y} x {z} workgroups of {}",
            program.name,
            call + 1,
            program.calls.len(),
            x,
            dispatch.kernel().name,
        ));
    }

    fn tell_all(&self) {
        if self.config.tells_ops() {
            for call in 0..self.model.program().calls.len() {
                if let Some(dispatch) = self.run.dispatch_of(call) {
                    self.tell(call, dispatch);
                }
            }
        }
    }

    async fn call(&self, call: usize, last: bool) -> Result<(), SessionError> {
        let Some(dispatch) = self.run.dispatch_of(call) else {
            return Ok(());
        };
        if self.config.tells_ops() {
            self.tell(call, dispatch);
        }
        let program = self.model.program();
        let kernel = dispatch.kernel();
        let op = program.calls.get(call).map_or("", |call| &call.label);
        if self.config.asserts()
            && let Some(failed) = self.asserted_in_vain(call, kernel, last).await?
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
            self.debugger.log(LogLevel::Warning, || error.to_string());
        }
        let failed = |source: DeviceError| SessionError::InOp {
            op: op.into(),
            kernel: kernel.name,
            source: Box::new(source),
        };
        let recorded = self.device.record(std::slice::from_ref(dispatch));
        recorded.map_err(failed)?;
        // So that what the device finds wrong is this op's error.
        self.device.submit().map_err(failed)?;
        if self.config.synchronous {
            self.device.finish().await.map_err(failed)?;
        }
        Ok(())
    }

    async fn asserted_in_vain(
        &self,
        call: usize,
        kernel: &Kernel,
        last: bool,
    ) -> Result<Option<Failed>, SessionError> {
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

    /// Finds reads of what is not written, and fills what the step is to write.
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

    /// Looks at what the step has made.
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

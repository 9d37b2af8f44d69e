//! Runs: what a program's calls are for the sizes of a run, worked out once and kept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Dims, GpuProfiling, Model, SessionError, Work, bind::Memory};
use wisp_compiler::{Call, PARAMS_STRIDE, ParamWord, Program, Size};
use wisp_device::{BindGroup, Buffer, Device, Dispatch, Pipeline, Usage};
use wisp_graph::extension::expression::ValueError;

/// A program's calls bound to parameters of their own, and what they are for the sizes that these
/// parameters were last written for.
#[derive(Debug)]
pub(super) struct Recording {
    params: Buffer,
    groups: Vec<BindGroup>,
    run: Mutex<Option<Arc<Run>>>,
}

/// The kernels of one run, in order; those with an empty grid are left out.
#[derive(Debug)]
pub(super) struct Run {
    dims: Dims,
    dispatches: Vec<Dispatch>,
    /// The program's call that each dispatch does.
    calls: Vec<usize>,
}

impl Run {
    /// The sizes.
    pub fn dims(&self) -> &Dims {
        &self.dims
    }

    /// All kernels.
    pub fn dispatches(&self) -> &[Dispatch] {
        &self.dispatches
    }

    /// The kernel of a call; none if its grid is empty.
    pub fn dispatch_of(&self, call: usize) -> Option<&Dispatch> {
        let at = self.calls.binary_search(&call).ok()?;
        self.dispatches.get(at)
    }
}

impl Recording {
    pub fn new(
        device: &Device,
        program: &Program,
        memory: &Memory,
    ) -> Result<Recording, SessionError> {
        let bytes = program.calls.len() as u64 * PARAMS_STRIDE;
        let params = device.allocate("parameters", bytes, Usage::Uniform)?;
        Ok(Recording {
            groups: memory.bind(device, program, &params)?,
            params,
            run: Mutex::default(),
        })
    }

    /// Lets go of the memory that the calls are bound to.
    pub fn release(&mut self) {
        self.groups = Vec::new();
        *self.locked() = None;
    }

    /// Binds the calls to other memory.
    pub fn bind(
        &mut self,
        device: &Device,
        program: &Program,
        memory: &Memory,
    ) -> Result<(), SessionError> {
        self.release();
        self.groups = memory.bind(device, program, &self.params)?;
        Ok(())
    }

    fn locked(&self) -> MutexGuard<'_, Option<Arc<Run>>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run of these sizes: the last one, or one that is worked out and whose parameters are
    /// written now.
    fn of(&self, model: &Model, dims: &Dims) -> Result<Arc<Run>, SessionError> {
        let mut last = self.locked();
        if let Some(run) = last.as_ref().filter(|run| run.dims == *dims) {
            return Ok(run.clone());
        }
        let params = params(model, dims)?;
        let (mut dispatches, mut calls) = (Vec::new(), Vec::new());
        for (call, group) in self.groups.iter().enumerate() {
            if let Some((pipeline, workgroups)) = model.kernel(call, dims) {
                calls.push(call);
                dispatches.push(Dispatch::new(&model.device, pipeline, group, workgroups)?);
            }
        }
        let run = Arc::new(Run {
            dims: dims.clone(),
            dispatches,
            calls,
        });
        model.device.write(&self.params, 0, &params)?;
        *last = Some(run.clone());
        Ok(run)
    }
}

/// The parameters of all calls for some sizes.
fn params(model: &Model, dims: &Dims) -> Result<Vec<u8>, SessionError> {
    let calls = &model.program.calls;
    let mut bytes = vec![0u8; calls.len() * PARAMS_STRIDE as usize];
    for (call, chunk) in calls.iter().zip(bytes.chunks_mut(PARAMS_STRIDE as usize)) {
        for (word, slot) in call_params(call, dims)?
            .iter()
            .zip(chunk.chunks_exact_mut(4))
        {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        for size in &call.grid {
            evaluate(&call.label, size, dims)?;
        }
        if let Some(counts) = call.custom_workgroups(&dims.0) {
            model.check_workgroups(&call.label, counts)?;
        }
    }
    Ok(bytes)
}

/// The words of a call's parameters.
pub(super) fn call_params(call: &Call, dims: &Dims) -> Result<Vec<u32>, SessionError> {
    let words = call.params.iter().map(|word| match word {
        ParamWord::Const(value) => Ok(*value),
        ParamWord::Size(size) => evaluate(&call.label, size, dims),
    });
    words.collect()
}

fn evaluate(label: &str, size: &Size, dims: &Dims) -> Result<u32, SessionError> {
    let value = size.eval(&dims.0);
    value
        .and_then(|value| u32::try_from(value).ok())
        .ok_or_else(|| SessionError::TooLarge {
            op: label.into(),
            size: value.unwrap_or(u64::MAX),
        })
}

impl Model {
    /// The kernel of a call and its workgroups; none if its grid is empty.
    fn kernel(&self, call: usize, dims: &Dims) -> Option<(&Pipeline, [u32; 3])> {
        let mut choices = self.choices.get(call)?.iter();
        let call = self.program.calls.get(call)?;
        if let Some(counts) = call.custom_workgroups(&dims.0) {
            // `check_workgroups` has seen that they are few enough.
            let workgroups = counts.ok()?.map(|count| count as u32);
            let choice = choices.next()?;
            return (!workgroups.contains(&0)).then_some((&choice.pipeline, workgroups));
        }
        let [x, y] = [call.grid[0].eval(&dims.0)?, call.grid[1].eval(&dims.0)?];
        if x == 0 || y == 0 {
            return None;
        }
        let choice = choices.find(|choice| y <= u64::from(choice.most_rows))?;
        let [x, y] = [
            x.div_ceil(choice.tile[0].into()) as u32,
            y.div_ceil(choice.tile[1].into()) as u32,
        ];
        let most = self.device.info().capabilities.max_workgroups.max(1);
        // A long row of workgroups is folded into the next dimension; kernels unfold it.
        let workgroups = match () {
            () if x <= most => [x, y, 1],
            () if !choice.pipeline.kernel().folds_into_z => [most, x.div_ceil(most), 1],
            () => [most, y, x.div_ceil(most)],
        };
        Some((&choice.pipeline, workgroups))
    }

    /// Checks how many workgroups a custom op asks for.
    fn check_workgroups(
        &self,
        op: &str,
        counts: Result<[u64; 3], ValueError>,
    ) -> Result<(), SessionError> {
        let most = u64::from(self.device.info().capabilities.max_workgroups);
        let problem = match counts {
            Ok(counts) if counts.iter().all(|count| *count <= most) => return Ok(()),
            Ok(counts) => format!("it asks for {counts:?} workgroups, at most {most} are possible"),
            Err(error) => format!("its workgroups cannot be counted: {error}"),
        };
        Err(SessionError::Custom {
            op: op.into(),
            problem,
        })
    }

    /// The kernel that a call runs with these dimensions.
    pub fn kernel_of(&self, call: usize, dims: &Dims) -> Option<&'static str> {
        let (pipeline, _) = self.kernel(call, dims)?;
        Some(pipeline.kernel().name)
    }

    /// Refuses to run without weights.
    pub(super) fn check_ready(&self) -> Result<(), SessionError> {
        match self.memory.weights {
            Some(_) => Ok(()),
            None => Err(self.released()),
        }
    }

    pub(super) fn released(&self) -> SessionError {
        SessionError::Released {
            model: self.program.name.clone(),
        }
    }

    /// The sizes of the symbolic dimensions, for messages.
    pub(super) fn described(&self, dims: &Dims) -> String {
        let sizes = self.program.dims.iter().zip(&dims.0);
        let sizes: Vec<String> = sizes.map(|(name, size)| format!("{name}={size}")).collect();
        sizes.join(" ")
    }

    /// The run of some sizes, ready to be submitted: a captured one, or the last one if it was of these
    /// sizes, or a new one.
    pub(super) fn prepared(&self, dims: &Dims) -> Result<Arc<Run>, SessionError> {
        self.check_ready()?;
        let captured = self.captured.iter().find(|(sizes, _)| sizes == dims);
        let recording = captured.map_or(&self.recording, |(_, recording)| recording);
        recording.of(self, dims)
    }

    /// Records one run of the program. The host runs it at once; a GPU starts it together with what was
    /// recorded before and after, as soon as something needs it ([`Device::record`]): a
    /// [read](Self::read), a [write](Self::write) to memory that the run uses, or [`Device::submit`].
    /// So models that run one after the other, and a loop of runs, become one submission.
    ///
    /// What is the same in every run of some sizes is worked out in the first one, and again only when
    /// the sizes change; for sizes that [`Self::capture`] has prepared it is never worked out again.
    ///
    /// # Errors
    ///
    /// If the weights were released, or the device fails.
    pub fn run(&self, dims: &Dims) -> Result<(), SessionError> {
        if self.debugger.is_on(self) {
            #[cfg(not(target_arch = "wasm32"))]
            return pollster::block_on(self.debugger.run(self, dims));
            #[cfg(target_arch = "wasm32")]
            return self.debugger.cannot_wait();
        }
        let run = self.prepared(dims)?;
        match self.profiler.mode() {
            GpuProfiling::Off => Ok(self.device.record(run.dispatches())?),
            _ => self.profiler.run(self, &run),
        }
    }

    /// Records one of the program's calls several times, to measure it.
    ///
    /// # Errors
    ///
    /// If the weights were released, or the device fails.
    pub fn run_call(&self, call: usize, dims: &Dims, times: usize) -> Result<(), SessionError> {
        let run = self.prepared(dims)?;
        if let Some(dispatch) = run.dispatch_of(call) {
            for _ in 0..times {
                self.device.record(std::slice::from_ref(dispatch))?;
            }
        }
        Ok(())
    }

    /// What a run does, one for each of its kernels.
    pub(super) fn works<'a>(&'a self, run: &'a Run) -> impl Iterator<Item = Work> + 'a {
        let dims = &run.dims.0;
        let sizes = self.described(&run.dims);
        let kernels = run.calls.iter().zip(&run.dispatches);
        kernels.filter_map(move |(call, dispatch)| {
            let call = self.program.calls.get(*call)?;
            let rows = call.grid[1].eval(dims)?;
            let name = dispatch.kernel().name;
            Some(Work::of(&self.program, call, name, &sizes, rows))
        })
    }
}

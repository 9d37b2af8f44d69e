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
    kernels: Vec<RunKernel>,
}

#[derive(Debug)]
struct RunKernel {
    call: usize,
    pipeline: Pipeline,
    group: BindGroup,
    workgroups: [u32; 3],
}

impl RunKernel {
    fn dispatch(&self) -> Dispatch<'_> {
        Dispatch {
            pipeline: &self.pipeline,
            group: &self.group,
            workgroups: self.workgroups,
        }
    }
}

impl Run {
    /// The sizes.
    pub fn dims(&self) -> &Dims {
        &self.dims
    }

    /// All kernels.
    pub fn dispatches(&self) -> impl Iterator<Item = Dispatch<'_>> {
        self.kernels.iter().map(RunKernel::dispatch)
    }

    /// The kernel of a call; none if its grid is empty.
    pub fn dispatch_of(&self, call: usize) -> Option<Dispatch<'_>> {
        let found = self.kernels.iter().find(|kernel| kernel.call == call);
        found.map(RunKernel::dispatch)
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
        let calls = self.groups.iter().enumerate();
        let kernels = calls.filter_map(|(call, group)| {
            let (pipeline, workgroups) = model.kernel(call, dims)?;
            Some(RunKernel {
                call,
                pipeline: pipeline.clone(),
                group: group.clone(),
                workgroups,
            })
        });
        let run = Arc::new(Run {
            dims: dims.clone(),
            kernels: kernels.collect(),
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

    /// Runs the program once.
    ///
    /// # Errors
    ///
    /// If the weights were released, or the device fails.
    pub fn run(&self, dims: &Dims) -> Result<(), SessionError> {
        submit(&self.device, &[(self, dims)], 1)
    }

    /// Runs one of the program's calls several times, in one submission, to measure it.
    ///
    /// # Errors
    ///
    /// If the weights were released, or the device fails.
    pub fn run_call(&self, call: usize, dims: &Dims, times: usize) -> Result<(), SessionError> {
        let run = self.prepared(dims)?;
        let one = run.dispatch_of(call);
        Ok(self
            .device
            .submit(std::iter::repeat_n(one, times).flatten())?)
    }

    /// What a run does, one for each of its kernels.
    pub(super) fn works<'a>(&'a self, run: &'a Run) -> impl Iterator<Item = Work> + 'a {
        let dims = &run.dims.0;
        let sizes = self.described(&run.dims);
        run.kernels.iter().filter_map(move |kernel| {
            let call = self.program.calls.get(kernel.call)?;
            let rows = call.grid[1].eval(dims)?;
            let name = kernel.pipeline.kernel().name;
            Some(Work::of(&self.program, call, name, &sizes, rows))
        })
    }
}

/// Runs several models one after the other, `steps` times over, in one submission.
///
/// Whatever is the same in every run of some sizes is worked out in the first one, and again only when
/// the sizes change; for sizes that [`Model::capture`] has prepared it is never worked out again.
///
/// # Errors
///
/// If the weights of a model were released, or the device fails.
pub fn submit(
    device: &Device,
    models: &[(&Model, &Dims)],
    steps: usize,
) -> Result<(), SessionError> {
    let debugger = models.first().map(|(model, _)| &model.debugger);
    if let Some(debugger) = debugger.filter(|debugger| debugger.is_on(models)) {
        #[cfg(not(target_arch = "wasm32"))]
        return pollster::block_on(debugger.run(device, models, steps));
        #[cfg(target_arch = "wasm32")]
        return debugger.cannot_wait();
    }
    // A model has the parameters of one size at a time.
    let clash = |(i, (model, dims)): (usize, &(&Model, &Dims))| {
        let mut earlier = models[..i].iter();
        earlier.any(|(other, sizes)| std::ptr::eq(*model, *other) && dims != sizes)
    };
    if models.iter().enumerate().any(clash) {
        for _ in 0..steps {
            for one in models {
                submit(device, std::slice::from_ref(one), 1)?;
            }
        }
        return Ok(());
    }
    let runs = models
        .iter()
        .map(|(model, dims)| Ok((*model, model.prepared(dims)?)))
        .collect::<Result<Vec<_>, SessionError>>()?;
    let once = || runs.iter().flat_map(|(_, run)| run.dispatches());
    let dispatches = (0..steps).flat_map(|_| once());
    match models.first().map(|(model, _)| &model.profiler) {
        Some(profiler) if profiler.mode() != GpuProfiling::Off => {
            profiler.submit(device, &runs, steps, dispatches)
        }
        _ => Ok(device.submit(dispatches)?),
    }
}

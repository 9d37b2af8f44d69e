//! Which kernels a run of some sizes dispatches: their workgroups and parameters.

use std::sync::{Arc, MutexGuard};

use wisp_compiler::{PARAMS_STRIDE, Traffic};
use wisp_device::{BindGroup, Dispatch, Pipeline, Sequence};
use wisp_graph::extension::expression::ValueError;
use wisp_shaders::Kernel;

use crate::{
    dims::Dims,
    error::SessionError,
    model::Model,
    operations::operations,
    params::{call_params, evaluate},
    profile::Work,
    recording::{Recording, Run, Runs},
};

/// Locked runs, and the current one.
type LockedRun<'a> = (MutexGuard<'a, Runs>, Arc<Run>);

/// The workgroups that cover a grid, at most `most` in a dimension.
fn workgroups(kernel: &Kernel, [x, y]: [u64; 2], most: u32) -> [u32; 3] {
    let [x, y] = [
        x.div_ceil(kernel.tile[0].into()) as u32,
        y.div_ceil(kernel.tile[1].into()) as u32,
    ];
    // A row of workgroups above the limit is folded into another dimension; kernels unfold it.
    match () {
        () if x <= most => [x, y, 1],
        () if !kernel.folds_into_z => [most, x.div_ceil(most), 1],
        () => [most, y, x.div_ceil(most)],
    }
}

impl Model {
    /// The kernel of a call and its workgroup counts; `None` if its grid is empty or a condition does not
    /// hold.
    fn kernel(&self, call: usize, dims: &Dims) -> Option<(&Pipeline, [u32; 3])> {
        let mut choices = self.choices.get(call)?.iter();
        let call = self.program.calls.get(call)?;
        if call.is_made(&dims.0) != Some(true) {
            return None;
        }
        if let Some(counts) = call.custom_workgroups(&dims.0) {
            // `check_workgroups` has checked that they fit into 32 bits.
            let workgroups = counts.ok()?.map(|count| count as u32);
            let choice = choices.next()?;
            return (!workgroups.contains(&0)).then_some((&choice.pipeline, workgroups));
        }
        let [x, y] = [call.grid[0].eval(&dims.0)?, call.grid[1].eval(&dims.0)?];
        if x == 0 || y == 0 {
            return None;
        }
        let choice = choices.find(|choice| y <= u64::from(choice.most_rows))?;
        let most = self.device.info().capabilities.max_workgroups.max(1);
        let kernel = choice.pipeline.kernel();
        Some((&choice.pipeline, workgroups(kernel, [x, y], most)))
    }

    /// The workgroup counts of a call of a built-in op with one of the op's kernels; `None` if its grid is
    /// empty.
    pub(crate) fn workgroups(&self, call: usize, dims: &Dims, kernel: &Kernel) -> Option<[u32; 3]> {
        let call = self.program.calls.get(call)?;
        let [x, y] = [call.grid[0].eval(&dims.0)?, call.grid[1].eval(&dims.0)?];
        let most = self.device.info().capabilities.max_workgroups.max(1);
        (x > 0 && y > 0).then(|| workgroups(kernel, [x, y], most))
    }

    /// Makes a dispatch of a call, with the estimate of its operations.
    pub(crate) fn dispatch(
        &self,
        call: usize,
        dims: &Dims,
        pipeline: &Pipeline,
        group: &BindGroup,
        workgroups: [u32; 3],
    ) -> Result<Dispatch, SessionError> {
        let dispatch = Dispatch::new(&self.device, pipeline, group, workgroups)?;
        let call = self.program.calls.get(call);
        let operations = call.map_or(0, |call| operations(call, pipeline.kernel(), dims));
        Ok(dispatch.with_operations(operations))
    }

    /// Checks a custom op's workgroup counts against the device's limit.
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

    /// The name of the kernel that a call dispatches for these dimensions; `None` if its grid is empty or the
    /// call is skipped.
    pub fn kernel_of(&self, call: usize, dims: &Dims) -> Option<&'static str> {
        let (pipeline, _) = self.kernel(call, dims)?;
        Some(pipeline.kernel().name)
    }

    /// The number of kernels that a run of these sizes dispatches.
    pub fn dispatches(&self, dims: &Dims) -> usize {
        let calls = 0..self.program.calls.len();
        calls
            .filter(|call| self.kernel(*call, dims).is_some())
            .count()
    }

    /// Returns the bytes of weights and KV caches that a run of these sizes reads, if each sequence has
    /// `positions` positions in its cache and one token in the run.
    pub fn traffic(&self, dims: &Dims, positions: u64) -> Traffic {
        let mut all = Traffic::default();
        for (at, call) in self.program.calls.iter().enumerate() {
            if let Some((pipeline, _)) = self.kernel(at, dims) {
                let kernel = pipeline.kernel();
                all += self.program.traffic(call, kernel, &dims.0, positions);
            }
        }
        all
    }

    /// Returns an error if the weights were released, or another model that shares them has overwritten a part only.
    pub(crate) fn check_ready(&self) -> Result<(), SessionError> {
        match &self.memory.weights {
            Some(weights) if weights.is_consistent() => Ok(()),
            Some(_) => Err(SessionError::Overwritten {
                model: self.program.name.clone(),
            }),
            None => Err(self.released()),
        }
    }

    pub(crate) fn released(&self) -> SessionError {
        SessionError::Released {
            model: self.program.name.clone(),
        }
    }

    /// The sizes of the symbolic dimensions, for messages.
    pub(crate) fn described(&self, dims: &Dims) -> String {
        let sizes = self.program.dims.iter().zip(&dims.0);
        let sizes: Vec<String> = sizes.map(|(name, size)| format!("{name}={size}")).collect();
        sizes.join(" ")
    }

    /// The run of these sizes, which nothing rewrites while it is held: for runs step by step.
    pub(crate) fn prepared(&self, dims: &Dims) -> Result<Arc<Run>, SessionError> {
        Ok(self.prepare(dims)?.1)
    }

    /// Prepares the run of these sizes and records it. No other run can rewrite the parameters in between.
    pub(crate) fn with_run<T>(
        &self,
        dims: &Dims,
        record: impl FnOnce(&Run) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        let (guard, run) = self.prepare(dims)?;
        let recorded = record(&run);
        // Before the lock is released: a run with an owner beside the recording counts as executed step by step.
        drop(run);
        drop(guard);
        recorded
    }

    /// Locks the recording of these sizes, with their run as the current one.
    fn prepare(&self, dims: &Dims) -> Result<LockedRun<'_>, SessionError> {
        self.check_ready()?;
        self.recorded(self.recording_of(dims), dims)
    }

    /// The recording of these sizes: a captured one, or the one of all other sizes.
    pub(crate) fn recording_of(&self, dims: &Dims) -> &Recording {
        let captured = self.captured.iter().find(|(sizes, _)| sizes == dims);
        captured.map_or(&self.recording, |(_, recording)| recording)
    }

    /// The work of each dispatch of a run, for the profiler.
    pub(crate) fn works<'a>(&'a self, run: &'a Run) -> impl Iterator<Item = Work> + 'a {
        let dims = &run.dims.0;
        let sizes = self.described(&run.dims);
        let kernels = run.calls.iter().zip(run.dispatches());
        kernels.filter_map(move |(call, dispatch)| {
            let call = self.program.calls.get(*call)?;
            let rows = call.grid[1].eval(dims)?;
            let name = dispatch.kernel().name;
            Some(Work::of(&self.program, call, name, &sizes, rows))
        })
    }

    /// Makes the run of these sizes the current one of a recording: prepares it unless it is kept, and writes
    /// its parameters unless they are those of the last run.
    fn recorded<'a>(
        &self,
        recording: &'a Recording,
        dims: &Dims,
    ) -> Result<LockedRun<'a>, SessionError> {
        let mut runs = recording.locked();
        if let Some(run) = runs.current().filter(|run| run.dims == *dims) {
            let run = run.clone();
            return Ok((runs, run));
        }
        // Unchecked kernels rely on parameters that fit the workgroups: those of a run that is being
        // executed step by step stay as they are.
        if runs.current().is_some_and(|run| Arc::strong_count(run) > 1) {
            return Err(SessionError::Busy {
                model: self.program.name.clone(),
            });
        }
        let run = match runs.take(dims) {
            Some(run) => run,
            None => Arc::new(self.new_run(recording, dims)?),
        };
        runs.retire();
        self.device.write(&recording.params, 0, &run.params)?;
        runs.begin(run.clone());
        Ok((runs, run))
    }

    /// Prepares the run of these sizes.
    fn new_run(&self, recording: &Recording, dims: &Dims) -> Result<Run, SessionError> {
        let params = self.params(dims)?;
        let (mut dispatches, mut calls) = (Vec::new(), Vec::new());
        for (call, group) in recording.groups.iter().enumerate() {
            if let Some((pipeline, workgroups)) = self.kernel(call, dims) {
                calls.push(call);
                dispatches.push(self.dispatch(call, dims, pipeline, group, workgroups)?);
            }
        }
        Ok(Run {
            dims: dims.clone(),
            params,
            sequence: Sequence::new(dispatches),
            calls,
        })
    }

    /// The parameters of all calls for these sizes, [`PARAMS_STRIDE`] bytes each.
    fn params(&self, dims: &Dims) -> Result<Vec<u8>, SessionError> {
        let calls = &self.program.calls;
        let mut bytes = vec![0u8; calls.len() * PARAMS_STRIDE as usize];
        for (call, chunk) in calls.iter().zip(bytes.chunks_mut(PARAMS_STRIDE as usize)) {
            for (word, slot) in call_params(call, dims)?
                .iter()
                .zip(chunk.chunks_exact_mut(4))
            {
                slot.copy_from_slice(&word.to_le_bytes());
            }
            // Both sides of a bound are calculated as the grid is, so that no call is skipped in error.
            let conditions = call.conditions.iter();
            let bounds = conditions.flat_map(|condition| condition.bounds.iter().flatten());
            for size in call.grid.iter().chain(bounds) {
                evaluate(&call.label, size, dims)?;
            }
            if let Some(counts) = call.custom_workgroups(&dims.0) {
                self.check_workgroups(&call.label, counts)?;
            }
        }
        Ok(bytes)
    }
}

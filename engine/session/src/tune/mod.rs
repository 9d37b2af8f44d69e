//! Measuring which kernels are fastest on a device: what [`Tuner`] does for the calls of real models.
//!
//! Nothing here knows an op. A model that is loaded and has inputs can run each of its calls with any kernel
//! of the call's op, because all of them take the same bindings and parameters. So a tuner takes the calls of
//! a run, with the model's weights, caches and activations, and
//!
//! 1. compares the results of each kernel with the baseline's, at the point of the run where the call stands;
//! 2. times the kernels in turn, over the calls of all layers and over copies of their weights, which together
//!    are larger than the device's caches;
//! 3. keeps the default unless another kernel is faster by more than the noise.
//!
//! Rejected: synthetic weights and inputs, which would need a copy of every op's parameters here.

mod calls;
mod check;
mod decide;
mod race;
mod report;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, ops::ControlFlow, time::Duration};

use wisp_device::{Clock, Dispatch, Granularity, Pipeline};
use wisp_shaders::Kernel;
use wisp_types::Api;

pub use race::Ratio;
pub use report::{TunePoint, TuneReport, TuneVariant};

use crate::{dims::Dims, error::SessionError, model::Model, session::InferenceSession};
use calls::{Group, Ring};
use race::Race;

/// Bytes of weights that are read before one is read again: more than caches hold.
const COLD_BYTES: u64 = 256 << 20;

/// As [`COLD_BYTES`], of software adapters.
const SOFTWARE_COLD_BYTES: u64 = 64 << 20;

/// The most dispatches of one timed submission.
const MAX_DISPATCHES: usize = 256;

/// The part of the time limit that the calls of one shape and run may take.
const SHARE_OF_LIMIT: u32 = 12;

/// A callback for progress, with what is measured next; `Break` stops the tuning.
pub type OnTuning<'a> = &'a (dyn Fn(&str) -> ControlFlow<()> + Sync);

/// Measures the kernels of models' calls.
pub struct Tuner<'a> {
    session: &'a InferenceSession,
    now: &'a (dyn Fn() -> Duration + Sync),
    progress: OnTuning<'a>,
    start: Duration,
    limit: Duration,
    points: Vec<TunePoint>,
    left_out: usize,
    is_cancelled: bool,
    /// In place of the pipelines of some kernels: how tests make one wrong.
    #[cfg(test)]
    replaced: Vec<Pipeline>,
}

impl<'a> Tuner<'a> {
    /// Creates a tuner of a session's device that measures for at most `limit`. `now` is a clock, because
    /// browsers have another one than programs.
    pub fn new(
        session: &'a InferenceSession,
        limit: Duration,
        now: &'a (dyn Fn() -> Duration + Sync),
        progress: OnTuning<'a>,
    ) -> Tuner<'a> {
        Tuner {
            session,
            now,
            progress,
            start: now(),
            limit,
            points: Vec::new(),
            left_out: 0,
            is_cancelled: false,
            #[cfg(test)]
            replaced: Vec::new(),
        }
    }

    /// Returns whether there is time left and the caller has not stopped the tuning.
    pub fn continues(&self) -> bool {
        !self.is_cancelled && (self.now)().saturating_sub(self.start) < self.limit
    }

    /// Returns how far the time limit is used up, from 0 to 1.
    pub fn share_of_limit(&self) -> f64 {
        let used = (self.now)().saturating_sub(self.start).as_secs_f64();
        (used / self.limit.as_secs_f64().max(1e-9)).min(1.0)
    }

    /// Measures the calls of a model in a run of some sizes, but for those that were measured already. The
    /// inputs must have been written; the run changes the buffers as any run does. `contents` are sizes in the
    /// inputs' contents, such as the positions of a KV cache, each with the ops whose time depends on it. The
    /// host, which has one function for each op, measures nothing.
    ///
    /// # Errors
    ///
    /// If the weights were released, or the device fails.
    pub async fn measure(
        &mut self,
        model: &Model,
        dims: &Dims,
        contents: &[(&str, String)],
    ) -> Result<(), SessionError> {
        if self.session.device().info().api == Api::Host && !self.has_replaced() {
            return Ok(());
        }
        let mut groups = Group::all(self.session, model, dims);
        let sizes = |group: &Group| sizes(model, dims, group, contents);
        groups.retain(|group| {
            let sizes = sizes(group);
            let is_known = |point: &TunePoint| {
                point.shape == group.shape && point.rows == group.rows && point.sizes == sizes
            };
            !self.points.iter().any(is_known)
        });
        let run = model.prepared(dims)?;
        let mut measured = 0;
        for (call, dispatch) in run.calls.iter().zip(run.dispatches()) {
            let is_first = |group: &&Group| group.calls.first() == Some(call);
            if let Some(group) = groups.iter().find(is_first) {
                let sizes = sizes(group);
                let what = format!("{} {sizes}", group.shape.op);
                self.is_cancelled |= (self.progress)(&what).is_break();
                if !self.continues() {
                    break;
                }
                self.race(model, dims, group, sizes).await?;
                measured += 1;
            }
            model.device.record(std::slice::from_ref(dispatch))?;
        }
        self.left_out += groups.len() - measured;
        Ok(model.device.finish().await?)
    }

    fn has_replaced(&self) -> bool {
        #[cfg(test)]
        return !self.replaced.is_empty();
        #[cfg(not(test))]
        return false;
    }

    /// The pipeline of a kernel, as the model's own are.
    fn pipeline(&self, model: &Model, kernel: &'static Kernel) -> Result<Pipeline, SessionError> {
        #[cfg(test)]
        if let Some(replaced) = self
            .replaced
            .iter()
            .find(|it| it.kernel().name == kernel.name)
        {
            return Ok(replaced.clone());
        }
        self.session.pipeline(kernel, model.trusted)
    }

    fn pipelines(&self, model: &Model, group: &Group) -> Result<Vec<Pipeline>, SessionError> {
        let kernels = group.kernels.iter();
        kernels.map(|kernel| self.pipeline(model, kernel)).collect()
    }

    /// Compares the results of a group's kernels, where the group's first call stands in a run that is prepared,
    /// and times the kernels in turn.
    async fn race(
        &mut self,
        model: &Model,
        dims: &Dims,
        group: &Group,
        sizes: String,
    ) -> Result<(), SessionError> {
        let info = model.device.info();
        let cold_bytes = if info.software {
            SOFTWARE_COLD_BYTES
        } else {
            COLD_BYTES
        };
        let pipelines = self.pipelines(model, group)?;
        let ring = Ring::new(model, dims, group, &pipelines, cold_bytes)?;
        let kernels = ring.first();
        let (Some(call), Some(reference)) = (group.calls.first(), kernels.get(group.baseline()))
        else {
            return Ok(());
        };
        let (outcomes, saved) = check::compare(model, *call, reference, &kernels).await?;
        // Only kernels with right results take part, besides the default.
        let is_right = |kernel: &usize| *kernel == 0 || outcomes[*kernel].problem.is_none();
        let racing: Vec<usize> = (0..pipelines.len()).filter(is_right).collect();
        let alone = self.seconds(model, &ring.take(0, 0, 1)).await?;
        let count = (self.sample_seconds(model) / alone.max(1e-9)).ceil();
        let count = (count as usize).clamp(1, MAX_DISPATCHES);
        let deadline = (self.now)() + self.limit / SHARE_OF_LIMIT;
        let mut race = Race::new(racing.len());
        while let Some((variant, round)) = race.next() {
            if !self.continues() || (self.now)() > deadline {
                break;
            }
            let dispatches = ring.take(racing[variant], round * count, count);
            let seconds = self.seconds(model, &dispatches).await?;
            race.add(variant, seconds / count as f64);
        }
        saved.restore(model)?;
        let ratio = |kernel: usize| race.ratio(racing.iter().position(|it| *it == kernel)?);
        let variants = (1..pipelines.len()).map(|kernel| TuneVariant {
            kernel: group.kernels[kernel].name,
            ratio: ratio(kernel),
            error: outcomes[kernel].error,
            problem: outcomes[kernel].problem.clone(),
        });
        self.points.push(TunePoint {
            shape: group.shape.clone(),
            label: group.label(model),
            sizes,
            rows: group.rows,
            calls: group.calls.len(),
            default: group.kernels[0].name,
            chosen: group.kernels[0].name,
            default_kernels: group.default_kernels.clone(),
            problem: outcomes[0].problem.clone(),
            seconds: race.default_seconds(),
            variants: variants.collect(),
            is_complete: race.is_conclusive(),
        });
        Ok(())
    }

    /// The time that a timed submission should take: long beside the clock's steps and a submission's cost.
    fn sample_seconds(&self, model: &Model) -> f64 {
        let info = model.device.info();
        match model.device.clock() {
            // Browsers round timestamps to 0.1 ms.
            _ if info.api == Api::WebGpu => 10e-3,
            Clock::Device if !info.software => 0.5e-3,
            _ => 4e-3,
        }
    }

    /// Runs dispatches in one submission, and returns the seconds that it takes: by the device's timestamps, or
    /// by the tuner's clock where the device has none.
    async fn seconds(&self, model: &Model, dispatches: &[Dispatch]) -> Result<f64, SessionError> {
        let device = &model.device;
        if device.clock() != Clock::Device {
            device.finish().await?;
            let start = (self.now)();
            device.record(dispatches)?;
            device.finish().await?;
            return Ok((self.now)().saturating_sub(start).as_secs_f64());
        }
        let spans = device
            .submit_timed(dispatches, Granularity::Submission)?
            .await?;
        let nanoseconds = spans.iter().map(|span| span.end.saturating_sub(span.start));
        Ok(nanoseconds.sum::<u64>() as f64 * 1e-9)
    }

    /// Decides what to prefer, and returns everything that was measured.
    pub fn finish(mut self) -> TuneReport {
        let tuning = decide::decide(&mut self.points);
        let order = |point: &TunePoint| (point.shape.clone(), point.rows);
        self.points.sort_by_key(order);
        let device = self.session.device();
        TuneReport {
            version: env!("CARGO_PKG_VERSION"),
            os: std::env::consts::OS,
            device: device.info().clone(),
            clock: device.clock(),
            points: self.points,
            left_out: self.left_out,
            is_cancelled: self.is_cancelled,
            tuning,
        }
    }
}

/// The sizes of a run that a group's calls depend on, as text: `tokens=8 context=512`.
fn sizes(model: &Model, dims: &Dims, group: &Group, contents: &[(&str, String)]) -> String {
    let program = &model.program;
    let call = group
        .calls
        .first()
        .and_then(|call| program.calls.get(*call));
    let grid = call.iter().flat_map(|call| &call.grid);
    let used: BTreeSet<u32> = grid.flat_map(|size| size.dims.iter().copied()).collect();
    let size = |dim: &u32| {
        let (name, size) = (program.dims.get(*dim as usize)?, dims.0.get(*dim as usize)?);
        Some(format!("{name}={size}"))
    };
    let contents = contents
        .iter()
        .filter(|(op, _)| group.shape.op.contains(op));
    let contents = contents.map(|(_, size)| size.clone());
    let sizes = used.iter().filter_map(size).chain(contents);
    sizes.collect::<Vec<_>>().join(" ")
}

//! Running a model: its dispatches are recorded on the device.

use crate::{debug, dims::Dims, error::SessionError, model::Model, profiler::GpuProfiling};

impl Model {
    /// Records one run of the program. The host runs it at once. A GPU submits it together with other
    /// recorded work when something needs it ([`Device::record`](wisp_device::Device::record)): a
    /// [read](Self::read), a [write](Self::write) to memory that the run uses, or
    /// [`Device::submit`](wisp_device::Device::submit). So consecutive models, and a loop of runs, become
    /// one submission, or a few if they compute much.
    ///
    /// The first run of some sizes prepares their dispatches and parameters, which are kept for the last few
    /// sizes. A change of sizes writes the parameters to the device again, but for sizes that
    /// [`Self::capture`] has prepared.
    ///
    /// # Errors
    ///
    /// If the weights were released, or the device fails.
    pub fn run(&self, dims: &Dims) -> Result<(), SessionError> {
        if self.debugger.is_on(&self.program) {
            #[cfg(not(target_arch = "wasm32"))]
            return pollster::block_on(debug::run::run(self, dims));
            #[cfg(target_arch = "wasm32")]
            return debug::run::cannot_wait(&self.debugger);
        }
        self.with_run(dims, |run| {
            debug::run::trace_ops(self, run);
            match self.profiler.mode() {
                GpuProfiling::Off => Ok(self.device.replay(&run.sequence)?),
                _ => {
                    let works = self.works(run).collect();
                    let dispatches = run.dispatches();
                    let name = &self.program.name;
                    self.profiler.submit(&self.device, name, dispatches, works)
                }
            }
        })
    }

    /// Records one of the program's calls several times, to measure it.
    ///
    /// # Errors
    ///
    /// If the weights were released, or the device fails.
    pub fn run_call(&self, call: usize, dims: &Dims, times: usize) -> Result<(), SessionError> {
        self.with_run(dims, |run| {
            if let Some(dispatch) = run.dispatch_of(call) {
                for _ in 0..times {
                    self.device.record(std::slice::from_ref(dispatch))?;
                }
            }
            Ok(())
        })
    }

    /// As [`Self::run`], but awaits what debug checks read, so that they work in a browser too.
    pub(crate) async fn run_whole(&self, dims: &Dims) -> Result<(), SessionError> {
        match self.debugger.is_on(&self.program) {
            true => debug::run::run(self, dims).await,
            false => self.run(dims),
        }
    }
}

//! Commands of a device: recording dispatches, submitting them, waiting for them.

use super::Device;
use crate::{Clock, DeviceError, Dispatch, Granularity, Spans};

impl Device {
    /// Records dispatches, to run in order, each seeing what those before it wrote.
    ///
    /// The host runs them at once. A GPU gets them together with everything else that was recorded, in
    /// one submission, as soon as something needs them: [`Self::submit`], [`Self::read`],
    /// [`Self::finish`] or [`Self::submit_timed`], a write to memory that they use, a few thousand
    /// dispatches more, or more [operations](Dispatch::operations) than drivers allow time for. Several
    /// models, and several steps of one, thus become one submission when they run one after the other.
    ///
    /// # Errors
    ///
    /// If a dispatch is another device's (then nothing is recorded), if the device was lost or, on the
    /// host, a kernel fails. What a driver rejects is an error of the call that submits.
    pub fn record(&self, dispatches: &[Dispatch]) -> Result<(), DeviceError> {
        self.check_dispatches(dispatches)?;
        self.backend.record(dispatches)
    }

    pub(crate) fn check_dispatches(&self, dispatches: &[Dispatch]) -> Result<(), DeviceError> {
        let foreign = |dispatch: &&Dispatch| dispatch.pipeline.device != self.id;
        match dispatches.iter().find(foreign) {
            None => Ok(()),
            Some(dispatch) => Err(DeviceError::ForeignObject(dispatch.kernel().name.into())),
        }
    }

    /// Starts everything recorded so far, without waiting for it.
    ///
    /// # Errors
    ///
    /// If the device was lost or rejects what was recorded.
    pub fn submit(&self) -> Result<(), DeviceError> {
        self.backend.submit()
    }

    /// What [`Self::submit_timed`] measures with.
    pub fn clock(&self) -> Clock {
        self.backend.clock()
    }

    /// Runs dispatches in submissions of their own, after everything recorded before, and measures
    /// how long they take, together or one by one. Without timestamps ([`Self::clock`]) it waits until
    /// they are done.
    ///
    /// # Errors
    ///
    /// As [`Self::record`] and [`Self::submit`].
    pub fn submit_timed(
        &self,
        dispatches: &[Dispatch],
        granularity: Granularity,
    ) -> Result<Spans, DeviceError> {
        self.check_dispatches(dispatches)?;
        self.backend.submit_timed(dispatches, granularity)
    }

    /// Submits what was recorded and waits until the device has done everything.
    ///
    /// # Errors
    ///
    /// If the device was lost or reported an error meanwhile.
    pub async fn finish(&self) -> Result<(), DeviceError> {
        self.backend.finish().await
    }

    /// [`Self::finish`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::finish`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn finish_blocking(&self) -> Result<(), DeviceError> {
        pollster::block_on(self.finish())
    }
}

//! The dispatches and parameters of runs of some sizes, kept for the next runs.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use wisp_compiler::{PARAMS_STRIDE, Program};
use wisp_device::{BindGroup, Buffer, Device, Dispatch, Sequence, Usage};

use crate::{bind::Memory, dims::Dims, error::SessionError};

/// How many runs of earlier sizes are kept. The sizes of steps come again as sequences join and leave a batch.
const MAX_EARLIER: usize = 15;

/// A program's calls bound to a parameter buffer of their own, and the runs that use it, one at a time.
#[derive(Debug)]
pub(crate) struct Recording {
    pub params: Buffer,
    pub groups: Vec<BindGroup>,
    runs: Mutex<Runs>,
}

/// The prepared runs of a recording.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// The run whose parameters are in the buffer.
    current: Option<Arc<Run>>,
    /// Runs of other sizes, the most recent last.
    earlier: VecDeque<Arc<Run>>,
}

impl Runs {
    /// The run whose parameters are in the buffer.
    pub fn current(&self) -> Option<&Arc<Run>> {
        self.current.as_ref()
    }

    /// Takes out the earlier run of these sizes.
    pub fn take(&mut self, dims: &Dims) -> Option<Arc<Run>> {
        let at = self.earlier.iter().position(|run| run.dims == *dims)?;
        self.earlier.remove(at)
    }

    /// Makes the current run an earlier one, before the parameters of another are written.
    pub fn retire(&mut self) {
        self.earlier.extend(self.current.take());
        if self.earlier.len() > MAX_EARLIER {
            self.earlier.pop_front();
        }
    }

    /// Makes a run the current one, after its parameters were written.
    pub fn begin(&mut self, run: Arc<Run>) {
        self.current = Some(run);
    }
}

/// The dispatches of one run, in order; calls with an empty grid and skipped calls have none.
#[derive(Debug)]
pub(crate) struct Run {
    pub dims: Dims,
    /// The parameters of all calls, [`PARAMS_STRIDE`] bytes each.
    pub params: Vec<u8>,
    pub sequence: Sequence,
    /// The index of each dispatch's call in the program.
    pub calls: Vec<usize>,
}

impl Run {
    /// The sizes of the symbolic dimensions.
    pub fn dims(&self) -> &Dims {
        &self.dims
    }

    /// All dispatches.
    pub fn dispatches(&self) -> &[Dispatch] {
        self.sequence.dispatches()
    }

    /// The dispatch of a call; `None` if its grid is empty or the call is skipped.
    pub fn dispatch_of(&self, call: usize) -> Option<&Dispatch> {
        let at = self.calls.binary_search(&call).ok()?;
        self.dispatches().get(at)
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
            runs: Mutex::default(),
        })
    }

    /// Drops the bind groups, which keep the memory alive.
    pub fn release(&mut self) {
        self.groups = Vec::new();
        *self.locked() = Runs::default();
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

    /// Locks the runs. While they are locked, no other run can rewrite the parameters.
    pub fn locked(&self) -> MutexGuard<'_, Runs> {
        // Poisoning is harmless: no run is current while parameters are written.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::product;

    #[test]
    fn runs_of_the_last_sizes_are_kept() {
        let (_, model) = product(32);
        let prepared = |tokens: u64| {
            let dims = model.dims(&[("tokens", tokens)]).unwrap();
            Arc::downgrade(&model.prepared(&dims).unwrap())
        };
        let most = MAX_EARLIER as u64 + 1;
        let first = prepared(1);
        for tokens in 2..=most {
            prepared(tokens);
        }
        assert!(first.ptr_eq(&prepared(1)));
        for tokens in 2..=most {
            prepared(tokens);
        }
        assert_eq!(first.strong_count(), 1);
        prepared(most + 1);
        assert_eq!(first.strong_count(), 0);
    }

    #[test]
    fn runs_of_other_sizes_are_refused_while_one_is_executed_step_by_step() {
        let (_, model) = product(32);
        let [three, five] = [3, 5].map(|tokens| model.dims(&[("tokens", tokens)]).unwrap());
        // An earlier run is no way around it.
        model.prepared(&five).unwrap();
        let held = model.prepared(&three).unwrap();
        let error = model.prepared(&five).unwrap_err();
        assert!(matches!(error, SessionError::Busy { .. }), "{error:?}");
        assert!(Arc::ptr_eq(&held, &model.prepared(&three).unwrap()));
        drop(held);
        model.prepared(&five).unwrap();
    }

    #[test]
    fn releasing_the_weights_drops_all_runs() {
        let (_, mut model) = product(32);
        let runs = [3, 5].map(|tokens| {
            let dims = model.dims(&[("tokens", tokens)]).unwrap();
            Arc::downgrade(&model.prepared(&dims).unwrap())
        });
        model.release();
        assert!(runs.iter().all(|run| run.strong_count() == 0));
    }
}
